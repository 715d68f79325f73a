about='64 KiB base pages on arm64 (collected facts)'
expects=base-page-size
provoke() { cp "$project/crates/results/analysis/tests/check/recorded/arm64-64k.json" "$facts"; }
