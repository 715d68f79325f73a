about='a well-configured small server'
expects=
provoke() { collect temp "${good[@]}"; }
