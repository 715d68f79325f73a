about='a well-configured server that reads by primary key'
kind=diagnose
expects=
provoke() { diagnosed select-only --clients 2 --observe all; }
