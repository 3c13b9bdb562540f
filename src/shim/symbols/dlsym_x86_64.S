/* void* dlsym(void* handle, const char* symbol)
   Asks gpuman_dlsym; where that does not decide, jumps to the real one with everything as the caller left it, the
   return address included: that is how the real one knows whose RTLD_NEXT is meant.

   It is seen under glibc's versions of dlsym alone, and as no default of them: glibc binds every program's dlsym to it,
   and musl, which skips such symbols, leaves its programs theirs. */
	.text
	.globl	gpuman_dlsym_entry
	.hidden	gpuman_dlsym_entry
	.globl	gpuman_dlsym_first
	.globl	gpuman_dlsym_second
	.type	gpuman_dlsym_entry, @function
	.type	gpuman_dlsym_first, @function
	.type	gpuman_dlsym_second, @function
	.symver	gpuman_dlsym_first, dlsym@GLIBC_2.2.5
	.symver	gpuman_dlsym_second, dlsym@GLIBC_2.34
gpuman_dlsym_entry:
gpuman_dlsym_first:
gpuman_dlsym_second:
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
	.size	gpuman_dlsym_entry, .-gpuman_dlsym_entry
	.size	gpuman_dlsym_first, .-gpuman_dlsym_first
	.size	gpuman_dlsym_second, .-gpuman_dlsym_second
	.section	.note.GNU-stack,"",@progbits
