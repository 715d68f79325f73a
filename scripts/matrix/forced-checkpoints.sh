about='checkpoints forced every few seconds by a max_wal_size of 32 MB'
kind=diagnose
expects=forced-checkpoints
provoke() {
	diagnosed simple-update --clients 4 --scale 20 --observe all --set max_wal_size=32MB --set synchronous_commit=off
}
