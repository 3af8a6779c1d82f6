/* SPDX-License-Identifier: BSD-3-Clause */
/* deadline.c - the limit of a call */
#include "deadline.h"

#include "clock.h"
#include "error.h"
#include "param.h"
#include "range.h"

static _Thread_local uint64_t here; /* 0: no call */

uint64_t deadlineHere(void)
{
	return here ? here : clockNow() + paramNumber(paramTimeout) * SECOND;
}

uint64_t deadlineToTell(void)
{
	return deadlineHere() - paramNumber(paramTimeout) * SECOND / 10;
}

uint64_t deadlineBegin(void)
{
	uint64_t before = here;
	const char *call;
	int rank;

	here = deadlineHere();
	errorScopeNow(&call, &rank);
	rangeBegin(call);
	return before;
}

void deadlineEnd(uint64_t before)
{
	here = before;
	rangeEnd();
}
