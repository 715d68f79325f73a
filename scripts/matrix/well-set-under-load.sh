about='a well-set server that reads by its primary key'
kind=diagnose
expects=
provoke() { diagnosed select-only --clients 2 --observe all; }
