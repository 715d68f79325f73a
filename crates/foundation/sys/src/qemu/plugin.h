/*
 * What pgassay's plugins for qemu's user emulator have in common: version 1 of the plugin
 * interface (QEMU documentation, "QEMU TCG Plugins"), that of qemu 4.2 to 8.2, whose few
 * declarations are repeated here because Debian does not package the header; and what an
 * instruction does to memory.
 *
 * Instructions are told apart by their encodings: aarch64, Arm Architecture Reference
 * Manual, C4.1, "Loads and Stores"; ppc64le, Power ISA 3.1, Book II, 4.5, "Atomic Memory
 * Operations", and 4.6.2, "Load and Reserve"; x86_64, by prefix.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct
{
	const char *target_name;
	struct
	{
		int			min,
					cur;
	}			version;
	bool		system_emulation;
} qemu_info_t;
enum
{
	NO_REGISTERS = 0,			/* QEMU_PLUGIN_CB_NO_REGS */
	READ_AND_WRITE = 3,			/* QEMU_PLUGIN_MEM_RW */
	ADD = 0						/* QEMU_PLUGIN_INLINE_ADD_U64 */
};

typedef void (*executed_cb) (unsigned int, void *);
void		qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*) (qemu_plugin_id_t, struct qemu_plugin_tb *));
void		qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed_cb, int, void *);
void		qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void		qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, executed_cb, int, void *);
void		qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void		qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
											 void (*) (unsigned int, qemu_plugin_meminfo_t, uint64_t, void *), int, int, void *);
void		qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t,
												 void (*) (qemu_plugin_id_t, unsigned int, int64_t, uint64_t, uint64_t, uint64_t,
														   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
void		qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t, void (*) (qemu_plugin_id_t, unsigned int, int64_t, int64_t));
size_t		qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t		qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t	qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool		qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);

int			qemu_plugin_version __attribute__((visibility("default"))) = 1;

/* The processor, of those whose instructions are told apart. */
static enum machine
{
	AARCH64, PPC64LE, X86_64
}			machine;

/* What an instruction is, as far as memory and calls go. */
enum class
{
	IS_PLAIN,
	IS_EXCLUSIVE_LOAD,			/* or reserving */
	IS_EXCLUSIVE_STORE,			/* or conditional */
	IS_ATOMIC,					/* reads and writes at once, by itself */
	IS_CALL,
	IS_RETURN,
	IS_HIDDEN					/* what it writes, the emulator does not show */
};

/* Whether it is a processor that is known; as qemu names it. */
static inline bool
machine_is(const char *name)
{
	static const char *const names[] = {"aarch64", "ppc64le", "x86_64"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(name, names[i]) == 0)
		{
			machine = (enum machine) i;
			return true;
		}
	return false;
}

static inline enum class
of_aarch64(uint32_t word)
{
	if ((word & 0x3f000000) == 0x08000000)
	{
		bool		o2 = word >> 23 & 1,
					load = word >> 22 & 1,
					o1 = word >> 21 & 1;

		if (o2)
			return o1 ? IS_ATOMIC : IS_PLAIN;	/* CAS; LDAR, STLR */
		if (o1 && !(word >> 31))
			return IS_ATOMIC;	/* CASP */
		return load ? IS_EXCLUSIVE_LOAD : IS_EXCLUSIVE_STORE;
	}
	/* opc 100 with o3 = 1 is LDAPR, an acquiring load */
	if ((word & 0x3f200c00) == 0x38200000)
		return (word >> 12 & 0xf) == 0xc ? IS_PLAIN : IS_ATOMIC;
	if ((word & 0xfc000000) == 0x94000000 || (word & 0xfffff01f) == 0xd63f0000 ||
		(word & 0xfffff800) == 0xd63f0800)
		return IS_CALL;
	if ((word & 0xfffffc1f) == 0xd65f0000 || (word & 0xfffffbff) == 0xd65f0bff)
		return IS_RETURN;
	if ((word & 0xffffffe0) == 0xd50b7420)
		return IS_HIDDEN;		/* DC ZVA */
	return IS_PLAIN;
}

static inline enum class
of_ppc64le(uint32_t word)
{
	uint32_t	primary = word >> 26,
				extended = word >> 1 & 0x3ff;

	if (primary == 31)
		switch (extended)
		{
			case 20: case 52: case 84: case 116: case 276: /* l[wbdhq]arx */
				return IS_EXCLUSIVE_LOAD;
			case 150: case 182: case 214: case 694: case 726: /* st[wqdbh]cx. */
				return IS_EXCLUSIVE_STORE;
			case 582: case 614: case 710: case 742: /* lwat, ldat, stwat, stdat */
				return IS_ATOMIC;
			case 1014:
				return IS_HIDDEN;	/* dcbz */
		}
	if ((primary == 18 || primary == 16 || (primary == 19 && (extended == 16 || extended == 528))) && (word & 1))
		return IS_CALL;
	if (word == 0x4e800020)
		return IS_RETURN;
	return IS_PLAIN;
}

static inline enum class
of_x86_64(const uint8_t *bytes, size_t length)
{
	size_t		at = 0;
	bool		lock = false;

	while (at < length && (bytes[at] == 0x66 || bytes[at] == 0x67 || bytes[at] == 0xf2 || bytes[at] == 0xf3 ||
						   bytes[at] == 0xf0 || (bytes[at] & 0xf0) == 0x40 || bytes[at] == 0x64 || bytes[at] == 0x65 ||
						   bytes[at] == 0x2e || bytes[at] == 0x3e))
		lock |= bytes[at++] == 0xf0;
	if (lock)
		return IS_ATOMIC;
	if (at + 1 < length && (bytes[at] == 0x86 || bytes[at] == 0x87) && bytes[at + 1] < 0xc0)
		return IS_ATOMIC;		/* xchg with memory */
	if (at < length && (bytes[at] == 0xe8 || (bytes[at] == 0xff && at + 1 < length && (bytes[at + 1] >> 3 & 7) == 2)))
		return IS_CALL;
	if (at < length && (bytes[at] == 0xc3 || bytes[at] == 0xc2))
		return IS_RETURN;
	return IS_PLAIN;
}

static inline enum class
class_of(const struct qemu_plugin_insn *insn)
{
	size_t		length = qemu_plugin_insn_size(insn);
	uint32_t	word = 0;

	if (machine == X86_64)
		return of_x86_64(qemu_plugin_insn_data(insn), length);
	if (length < sizeof word)
		return IS_PLAIN;
	memcpy(&word, qemu_plugin_insn_data(insn), sizeof word);
	return machine == AARCH64 ? of_aarch64(word) : of_ppc64le(word);
}
