/* As dlsym_x86_64.S. */
	.text
	.globl	gpuman_dlsym_entry
	.hidden	gpuman_dlsym_entry
	.globl	gpuman_dlsym_first
	.globl	gpuman_dlsym_second
	.type	gpuman_dlsym_entry, %function
	.type	gpuman_dlsym_first, %function
	.type	gpuman_dlsym_second, %function
	.symver	gpuman_dlsym_first, dlsym@GLIBC_2.17
	.symver	gpuman_dlsym_second, dlsym@GLIBC_2.34
gpuman_dlsym_entry:
gpuman_dlsym_first:
gpuman_dlsym_second:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	gpuman_dlsym
	cbz	x1, 1f
	ldp	x29, x30, [sp], #32
	ret
1:	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	adrp	x16, gpuman_real_dlsym
	ldr	x16, [x16, #:lo12:gpuman_real_dlsym]
	br	x16
	.cfi_endproc
	.size	gpuman_dlsym_entry, .-gpuman_dlsym_entry
	.size	gpuman_dlsym_first, .-gpuman_dlsym_first
	.size	gpuman_dlsym_second, .-gpuman_dlsym_second
	.section	.note.GNU-stack,"",%progbits
