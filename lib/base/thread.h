/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - threads of the library, with all signals blocked */
#ifndef GIN_LIB_THREAD_H
#define GIN_LIB_THREAD_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* As threadStart(); a `stack` of 0 bytes, or one that is too small here, is the default size. */
static inline int threadStartSized(pthread_t *thread, const char *name, size_t stack,
				   void *(*body)(void *), void *arg)
{
	pthread_attr_t attributes;
	sigset_t all, old;
	int result;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	result = pthread_create(thread, &attributes, body, arg);
	if (result == EINVAL) /* thread-local variables of the program need more */
		result = pthread_create(thread, NULL, body, arg);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!result)
		pthread_setname_np(*thread, name);
	return result;
}

/* Returns 0 or an error number, like pthread_create(). `name` has at most 15 characters. */
static inline int threadStart(pthread_t *thread, const char *name, void *(*body)(void *), void *arg)
{
	return threadStartSized(thread, name, 0, body, arg);
}

#endif
