about='prepared statements that are planned for each execution'
expects=plan-cache-mode
provoke() { collect temp "${good[@]}" --set plan_cache_mode=force_custom_plan; }
