about='serializable transactions by default'
expects=default-isolation
provoke() { collect temp "${good[@]}" --set default_transaction_isolation=serializable; }
