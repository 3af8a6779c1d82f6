/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.S - the kernel of GPUs; SYMM_FATBIN is the file, or not defined: none */
	.section .rodata
	.balign 64
	.globl symmFatbin, symmFatbinEnd
	.hidden symmFatbin, symmFatbinEnd
symmFatbin:
#ifdef SYMM_FATBIN
	.incbin SYMM_FATBIN
#endif
symmFatbinEnd:
	.section .note.GNU-stack, "", %progbits
