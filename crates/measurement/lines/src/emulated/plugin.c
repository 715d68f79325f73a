/*
 * Records the shared memory that one process under qemu's user emulator accesses: a plugin
 * over plugin.h.
 *
 *   qemu-aarch64 -plugin plugin.so,control=FILE PROGRAM...
 *
 * FILE says which process is to be recorded, whether, and where shared memory lies. A
 * process is recorded from the end of a wait for its client to when it is told not to be;
 * it writes FILE.events, which events.rs reads. For programs of 64 bits that can lie
 * anywhere, the emulator uses its own addresses for theirs; the reader makes sure of it.
 */
#include "plugin.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* What happened; the numbers are those of events.rs. */
enum kind
{
	BEGIN, LOAD, STORE, ATOMIC, EXCLUSIVE_LOAD, EXCLUSIVE_STORE, CALL, ARRIVED,
	KERNEL_LOAD, KERNEL_STORE, WAIT, UNRESOLVED, UNSEEN, SYSTEM_CALL
};

struct event
{
	uint64_t	step;
	uint64_t	pc;
	uint64_t	value;
	uint32_t	size;
	uint32_t	kind;
};

/* What control.rs writes. */
struct control
{
	uint32_t	pid;
	uint32_t	on;
	uint32_t	ranges;
	uint32_t	padding;
	struct
	{
		uint64_t	start,
					end;
	}			shared[32];
};

struct instruction
{
	uint64_t	pc;
	uint64_t	after;
	uint32_t	index;
	enum class what;
};

struct block
{
	uint64_t	first,
				last;
	size_t		length;
};

static volatile struct control *control;
static char events_path[4096];
static int	events_fd = -1;
static struct event buffer[1 << 14];
static size_t buffered;
static uint64_t executed,
			next_executed;
static const struct block *current;
static bool recording,
			returned;
static uint32_t self;

static void
flush(void)
{
	const char *from = (const char *) buffer;
	size_t		left = buffered * sizeof buffer[0];

	while (left > 0)
	{
		ssize_t		done = write(events_fd, from, left);

		if (done <= 0)
			break;				/* a full disk: what is missing will be missed */
		from += done;
		left -= done;
	}
	buffered = 0;
}

static void
emit(enum kind kind, uint64_t step, uint64_t pc, uint64_t value, uint64_t size)
{
	buffer[buffered++] = (struct event)
	{
		step, pc, value, size > UINT32_MAX ? UINT32_MAX : (uint32_t) size, kind
	};
	if (buffered == sizeof buffer / sizeof buffer[0])
		flush();
}

static bool
is_shared(uint64_t address)
{
	uint32_t	ranges = control->ranges;

	for (uint32_t i = 0; i < ranges && i < 32; i++)
		if (address >= control->shared[i].start && address < control->shared[i].end)
			return true;
	return false;
}

static void
on_block(unsigned int cpu, void *data)
{
	current = data;
	executed = next_executed;
	next_executed += current->length;
	if (recording && returned)
		emit(ARRIVED, executed, current->first, 0, 0);
	returned = false;
}

static void
on_memory(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	const struct instruction *instruction = data;
	bool		store;
	enum kind	kind;

	if (!recording || !is_shared(address))
		return;
	store = qemu_plugin_mem_is_store(info);
	kind = store ? STORE : LOAD;
	if (instruction->what == IS_ATOMIC)
	{
		if (!store)
			return;				/* reads and writes at once: told once, by its store */
		kind = ATOMIC;
	}
	else if (instruction->what == IS_EXCLUSIVE_LOAD)
		kind = EXCLUSIVE_LOAD;
	else if (instruction->what == IS_EXCLUSIVE_STORE)
		kind = store ? EXCLUSIVE_STORE : EXCLUSIVE_LOAD;
	emit(kind, executed + instruction->index, instruction->pc, address, 1u << qemu_plugin_mem_size_shift(info));
}

static void
on_flow(unsigned int cpu, void *data)
{
	const struct instruction *instruction = data;

	if (!recording)
		return;
	if (instruction->what == IS_CALL)
		emit(CALL, executed + instruction->index, instruction->pc, instruction->after, 0);
	else if (instruction->what == IS_RETURN)
		returned = true;
	else
		emit(UNRESOLVED, executed + instruction->index, instruction->pc, 0, 0);
}

static void
on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t		n = qemu_plugin_tb_n_insns(tb);
	struct block *block = calloc(1, sizeof *block);
	struct instruction *all = calloc(n ? n : 1, sizeof *all);

	if (!block || !all)
		abort();
	block->length = n;
	for (size_t i = 0; i < n; i++)
	{
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct instruction *instruction = &all[i];

		instruction->pc = block->last = qemu_plugin_insn_vaddr(insn);
		instruction->after = instruction->pc + qemu_plugin_insn_size(insn);
		instruction->index = i;
		instruction->what = class_of(insn);
		if (i == 0)
			block->first = instruction->pc;
		qemu_plugin_register_vcpu_mem_cb(insn, on_memory, NO_REGISTERS, READ_AND_WRITE, instruction);
		if (instruction->what >= IS_CALL)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_flow, NO_REGISTERS, instruction);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, block);
}

/* What a system call does to memory; the numbers are each machine's. */
enum call
{
	OTHER, READS, WRITES, READS_PARTS, WRITES_PARTS, FUTEX, WAITS, RING, MAPS
};

static const struct
{
	int16_t		number[3];		/* in the order of the machines; -1 for none */
	enum call	call;
} calls[] = {
	{{63, 3, 0}, READS}, {{67, 179, 17}, READS}, {{207, 337, 45}, READS}, {{-1, 336, -1}, READS},
	{{64, 4, 1}, WRITES}, {{68, 180, 18}, WRITES}, {{206, 335, 44}, WRITES}, {{-1, 334, -1}, WRITES},
	{{65, 145, 19}, READS_PARTS}, {{69, 320, 295}, READS_PARTS}, {{286, 380, 327}, READS_PARTS},
	{{66, 146, 20}, WRITES_PARTS}, {{70, 321, 296}, WRITES_PARTS}, {{287, 381, 328}, WRITES_PARTS},
	{{98, 221, 202}, FUTEX},
	{{-1, 238, 232}, WAITS}, {{22, 303, 281}, WAITS}, {{441, 441, 441}, WAITS}, {{-1, 167, 7}, WAITS}, {{73, 281, 271}, WAITS},
	{{426, 426, 426}, RING},
	{{222, 90, 9}, MAPS}, {{215, 91, 11}, MAPS}, {{216, 163, 25}, MAPS}, {{196, 117, 30}, MAPS},
};

static enum call
call_of(int64_t number)
{
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
		if (calls[i].number[machine] == number)
			return calls[i].call;
	return OTHER;
}

static void
by_kernel(enum kind kind, uint64_t address, uint64_t length)
{
	if (length > 0 && is_shared(address))
		emit(kind, next_executed, current ? current->last : 0, address, length);
}

static void
on_call(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
		uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	enum call	call = call_of(number);
	uint64_t	pc = current ? current->last : 0;

	if (!recording)
		return;
	emit(SYSTEM_CALL, next_executed, pc, number, 0);
	switch (call)
	{
		case READS:
		case WRITES:
			by_kernel(call == READS ? KERNEL_STORE : KERNEL_LOAD, a2, a3);
			break;
		case READS_PARTS:
		case WRITES_PARTS:
			for (uint64_t i = 0; i < a3 && i < 1024; i++)
			{
				struct iovec part = ((const struct iovec *) (uintptr_t) a2)[i];

				by_kernel(call == READS_PARTS ? KERNEL_STORE : KERNEL_LOAD, (uintptr_t) part.iov_base, part.iov_len);
			}
			break;
		case FUTEX:
			by_kernel(KERNEL_LOAD, a1, 4);
			break;
		case WAITS:
			emit(WAIT, next_executed, pc, 0, 0);
			flush();
			break;
		case RING:
		case MAPS:
			emit(UNSEEN, next_executed, pc, number, 0);
			break;
		case OTHER:
			break;
	}
}

static void
on_call_end(qemu_plugin_id_t id, unsigned int cpu, int64_t number, int64_t result)
{
	if (call_of(number) != WAITS)
		return;
	if (control->pid != self || !control->on)
		recording = false;
	else if (!recording)
	{
		events_fd = open(events_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (events_fd < 0)
			return;
		recording = true;
		returned = false;
		emit(BEGIN, next_executed, current ? current->last : 0, 0, 0);
	}
}

/* A new process is not the one that is recorded. */
static void
in_child(void)
{
	self = getpid();
	recording = false;
	buffered = 0;
	events_fd = -1;
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	int			fd;

	if (!machine_is(info->target_name))
		return -1;
	if (argc < 1 || strncmp(argv[0], "control=", 8) != 0)
		return -1;
	snprintf(events_path, sizeof events_path, "%s.events", argv[0] + 8);
	fd = open(argv[0] + 8, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	control = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (control == MAP_FAILED)
		return -1;
	self = getpid();
	pthread_atfork(NULL, NULL, in_child);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_vcpu_syscall_cb(id, on_call);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_call_end);
	return 0;
}
