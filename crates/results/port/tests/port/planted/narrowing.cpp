struct Entry
{
	int n;
	char sign;
};

static const char steps[] = {1, -1}; // PLANTED char-narrowing
static const Entry entries[] = {{1, 2}, {3, -1}}; // PLANTED char-narrowing
