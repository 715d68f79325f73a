#!/bin/bash
# Reduces a guest's run to a small fixture for the tests: the host's facts, the devices
# under the data, the plan, and two cold executions of the most informative methods.
#
#	labs/page-size/fixture.sh RUN-DIRECTORY >crates/results/analysis/tests/kernels/NAME.json
set -euo pipefail
run=${1:?usage: fixture.sh RUN-DIRECTORY}
jq -c --slurpfile plan "$run/facts/scattered-read.json" --slurpfile host "$run/facts/host.json" \
	--slurpfile storage "$run/facts/storage-0.json" -n '
	["bitmap-no-prefetch-ra0", "bitmap-no-prefetch", "bitmap-random-no-prefetch", "bitmap-direct"] as $kept |
	$plan[0] as $plan |
	{
		host: $host[0],
		storage: $storage[0],
		plan: $plan,
		trials: [
			inputs | select(.raw.scattered_read.cold and ($plan.variants[.slice.point].id | IN($kept[]))) |
			.raw.scattered_read.explain.text |= (fromjson | tojson) |
			.samples |= {"host.diskstats": .["host.diskstats"]}
		] | group_by(.slice.point) | map(.[:2]) | add
	}' "$run/trials.jsonl"
