/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - threads of the library, with all signals blocked */
#ifndef GIN_LIB_THREAD_H
#define GIN_LIB_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Returns 0 or an error number, like pthread_create(). `name` has at most 15 characters. */
static inline int threadStart(pthread_t *thread, const char *name, void *(*body)(void *), void *arg)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int result = pthread_create(thread, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!result)
		pthread_setname_np(*thread, name);
	return result;
}

#endif
