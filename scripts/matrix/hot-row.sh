about='eight clients update one row'
kind=diagnose
expects=hot-row
provoke() { diagnosed hot-row --clients 8 --observe all; }
