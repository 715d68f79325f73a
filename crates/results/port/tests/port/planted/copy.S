	.text # PLANTED-FILE assembly-file
	.globl	copy
copy:
	movq	%rdi, %rax
	ret
