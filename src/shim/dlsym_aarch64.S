/* As dlsym_x86_64.S. */
	.text
	.globl	dlsym
	.type	dlsym, %function
dlsym:
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
	.size	dlsym, .-dlsym
	.section	.note.GNU-stack,"",%progbits
