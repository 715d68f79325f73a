about='every query compiled: jit_above_cost = 0'
expects=jit-small-queries
provoke() { collect temp "${good[@]}" --set jit=on --set jit_above_cost=0; }
