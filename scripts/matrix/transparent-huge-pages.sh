about='transparent huge pages for all memory'
expects=transparent-huge-pages
needs() { must_be_root; }
thp=/sys/kernel/mm/transparent_hugepage/enabled
before=$(sed 's/.*\[\(.*\)\].*/\1/' $thp)
undo() { echo "$before" >$thp; }
provoke() {
	echo always >$thp
	collect temp "${good[@]}"
}
