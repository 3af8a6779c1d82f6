/* SPDX-License-Identifier: BSD-3-Clause */
/* interrupt.c - the caller's function that may end a collective */
#include "interrupt.h"

#include <stddef.h>

#include "clock.h"
#include "error.h"

static _Thread_local struct interrupt *here;

struct interrupt *interruptSet(struct interrupt *one)
{
	struct interrupt *before = here;

	here = one;
	return before;
}

int interruptEnded(struct interrupt *one)
{
	const char *call;
	int rank;

	if (!one || !one->poll || one->ended)
		return one && one->ended;
	if (clockNow() < one->next)
		return 0;
	errorScopeNow(&call, &rank);
	one->ended = one->poll(one->arg) != 0;
	errorScope(call, rank);
	one->next = clockNow() + INTERRUPT_MS * (SECOND / 1000);
	return one->ended;
}

int interruptedHere(void)
{
	return interruptEnded(here);
}

int interruptMs(const struct interrupt *one, int most)
{
	return one && one->poll && most > INTERRUPT_MS ? INTERRUPT_MS : most;
}

int interruptMsHere(int most)
{
	return interruptMs(here, most);
}
