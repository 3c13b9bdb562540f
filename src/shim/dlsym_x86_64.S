/* void* dlsym(void* handle, const char* symbol)
   Asks gpuman_dlsym; where that does not decide, jumps to the real one with everything as the caller left it, the
   return address included: that is how the real one knows whose RTLD_NEXT is meant. */
	.text
	.globl	dlsym
	.type	dlsym, @function
dlsym:
	.cfi_startproc
	endbr64
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	gpuman_dlsym
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rdx, %rdx
	jz	1f
	ret
1:	jmp	*gpuman_real_dlsym(%rip)
	.cfi_endproc
	.size	dlsym, .-dlsym
	.section	.note.GNU-stack,"",@progbits
