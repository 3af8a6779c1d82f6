/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits_threads.c - a rank whose n-th thread cannot be started, for every n
 *
 * This file wraps pthread_create() (--wrap). The other ranks learn of the failure, nothing leaks,
 * and the next attempt works in these processes.
 */
/* LINK: -Wl,--wrap=pthread_create */
/* NEEDS: libgin-weak.so */
#include "resource_limits.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*body)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*body)(void *), void *arg);

/* Threads until one cannot be started; negative: all can be. */
static int until = -1;
static int didFail;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*body)(void *), void *arg)
{
	if (until < 0 || until--)
		return __real_pthread_create(thread, attributes, body, arg);
	didFail = 1;
	return EAGAIN;
}

static int failEach(const ginConfig_t *config)
{
	int n = 0, more = 1, all[MOST_RANKS];

	expectLife(config);
	const struct holdings before = holdingsNow();
	for (n = 0; more; n++) {
		didFail = 0;
		until = isLacking(config) ? n : -1;
		struct life life = live(config, NULL);
		until = -1;
		expectHoldings(before);
		gather(config, &didFail, all, sizeof(didFail));
		more = all[lackingRank];
		EXPECT(!more == !life.failed);
		if (more)
			expectSameWords(&life.outcome, "ginCommInit", "ulimit -u");
		expectLife(config);
	}
	EXPECT(n > 1);
	return 0;
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0); /* longer than a life may last */
	runLacking("no thread", 3, failEach);
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	setenv("GIN_PROXY_THREADS", "2", 1);
	runLacking("no thread, proxy", 3, failEach);
	setenv("GIN_TRANSPORT", "weak", 1);
	lackingRank = 0;
	runRanks("no thread, proxy over a network", 1, failEach);
	return expectFailures != 0;
}
