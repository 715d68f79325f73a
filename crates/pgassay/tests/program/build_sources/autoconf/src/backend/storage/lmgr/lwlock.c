/* A lock by an atomic, for inspect to find. */
int lwlock_acquire(int *lock);

int lwlock_acquire(int *lock)
{
	int held = __atomic_add_fetch(lock, 1, __ATOMIC_SEQ_CST);

	return held;
}
