about='an arm64 archive built for ARMv8.0 on 64 cores of Neoverse N1 (collected facts)'
expects=lse-server
provoke() { cp "$project/crates/results/analysis/tests/check/recorded/arm64-llsc.json" "$facts"; }
