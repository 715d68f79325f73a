about='a well-set small server'
expects=
provoke() { collect temp "${good[@]}"; }
