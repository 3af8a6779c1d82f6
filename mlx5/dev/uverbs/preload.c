/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * preload.c - stands in front of libc, where libibverbs opens /dev/infiniband/uverbsN
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "mlx5/dev/device/device.h"
#include "mlx5/dev/device/event.h"
#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/host/trap.h"
#include "uverbs.h"

#define PUBLIC __attribute__((visibility("default")))

/* The next function of that name, as a function of its own type. */
#define NEXT(name)                                                                                 \
	static __typeof__(&(name)) next;                                                           \
	if (!next)                                                                                 \
	*(void **)&next = dlsym(RTLD_NEXT, #name)

static const char DEVICE_PATH[] = "/dev/infiniband/uverbs";

/* The device's index, or -1: the path is none of ours. */
static int deviceOf(const char *path)
{
	size_t length = sizeof(DEVICE_PATH) - 1;

	if (!path || strncmp(path, DEVICE_PATH, length))
		return -1;
	int index = atoi(path + length);
	return index >= 0 && index < DEVICES_MAX ? index : -1;
}

static int opened(int fd, int index)
{
	if (fd >= 0)
		uverbsOpened(fd, index);
	return fd;
}

PUBLIC int open(const char *path, int flags, ...)
{
	NEXT(open);
	int index = deviceOf(path);
	va_list args;

	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (index >= 0)
		return opened(next("/dev/null", O_RDWR | O_CLOEXEC), index);
	return next(path, flags, mode);
}

PUBLIC int open64(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open(path, flags | O_LARGEFILE, mode);
}

PUBLIC int stat(const char *path, struct stat *status)
{
	NEXT(stat);
	return next(deviceOf(path) >= 0 ? "/dev/null" : path, status);
}

PUBLIC int close(int fd)
{
	NEXT(close);
	/* The device itself closes, too, and has the lock: it has none of these. */
	if (uverbsIsOpen(fd)) {
		uverbsClosed(fd);
	} else if (eventChannel(fd)) {
		deviceLock();
		eventClosedChannel(fd);
		deviceUnlock();
	}
	return next(fd);
}

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, ...);
	va_list args;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	va_start(args, request);
	void *argument = va_arg(args, void *);
	va_end(args);
	if (request == RDMA_VERBS_IOCTL && uverbsIsOpen(fd))
		return uverbsIoctl(fd, argument);
	return next(fd, request, argument);
}

PUBLIC void *mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	NEXT(mmap);
	if (fd >= 0 && uverbsIsOpen(fd))
		return uverbsMmap(where, bytes, protection, flags, (uint64_t)offset);
	return next(where, bytes, protection, flags, fd, offset);
}

PUBLIC void *mmap64(void *where, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return mmap(where, bytes, protection, flags, fd, offset);
}

/* libibverbs asks the kernel by netlink first, and believes that it has no devices. */
PUBLIC int socket(int domain, int type, int protocol)
{
	NEXT(socket);
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
		return errno = EPROTONOSUPPORT, -1;
	return next(domain, type, protocol);
}

/* A program's handler of SIGSEGV gets faults outside of doorbells. */
PUBLIC int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
	NEXT(sigaction);
	if (number == SIGSEGV && trapOthers(action, before))
		return 0;
	return next(number, action, before);
}

PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;

	return sigaction(number, &action, &before) ? SIG_ERR : before.sa_handler;
}

/* A thread that blocks all signals rings doorbells, too: the kernel would end the process. */
static const sigset_t *withoutFault(const sigset_t *set, sigset_t *copy)
{
	if (!set)
		return NULL;
	*copy = *set;
	sigdelset(copy, SIGSEGV);
	return copy;
}

PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
	NEXT(pthread_sigmask);
	sigset_t copy;

	return next(how, how == SIG_UNBLOCK ? set : withoutFault(set, &copy), before);
}

PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
	NEXT(sigprocmask);
	sigset_t copy;

	return next(how, how == SIG_UNBLOCK ? set : withoutFault(set, &copy), before);
}

static int realSigaction(int number, const struct sigaction *action, struct sigaction *before)
{
	NEXT(sigaction);
	return next(number, action, before);
}

__attribute__((constructor)) static void begin(void)
{
	trapSigaction = realSigaction;
}

__attribute__((destructor)) static void end(void)
{
	fabricForget();
}
