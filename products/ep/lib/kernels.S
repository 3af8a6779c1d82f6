/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.S - the kernels of GPUs; EP_FATBIN is the file, or not defined: none */
	.section .rodata
	.balign 64
	.globl epFatbin, epFatbinEnd
	.hidden epFatbin, epFatbinEnd
epFatbin:
#ifdef EP_FATBIN
	.incbin EP_FATBIN
#endif
epFatbinEnd:
	.section .note.GNU-stack, "", %progbits
