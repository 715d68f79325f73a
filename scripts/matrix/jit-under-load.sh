about='every small query compiled: jit_above_cost = 0'
kind=diagnose
expects=jit-small-queries
provoke() {
	diagnosed select-only --clients 2 --protocol simple --observe all \
		--set jit=on --set jit_above_cost=0 --set jit_inline_above_cost=0 --set jit_optimize_above_cost=0
}
