about='commits that sleep 20 ms for other commits that never come'
expects=commit-delay
provoke() { collect temp "${good[@]}" --set commit_delay=20000 --set commit_siblings=0; }
