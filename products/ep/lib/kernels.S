/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.S - the kernels of GPUs, and those that write records for GIN_TRACE; EP_FATBIN and
 * EP_TRACED are the files, or not defined: none
 */
	.section .rodata
	.balign 64
	.globl epFatbin, epFatbinEnd, epTraced, epTracedEnd
	.hidden epFatbin, epFatbinEnd, epTraced, epTracedEnd
epFatbin:
#ifdef EP_FATBIN
	.incbin EP_FATBIN
#endif
epFatbinEnd:
	.balign 64
epTraced:
#ifdef EP_TRACED
	.incbin EP_TRACED
#endif
epTracedEnd:
	.section .note.GNU-stack, "", %progbits
