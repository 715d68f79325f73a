/* Something to be linked elsewhere. */
int spin(int turns);

int spin(int turns)
{
	int n = 0;

	while (turns-- > 0)
		n += turns;
	return n;
}
