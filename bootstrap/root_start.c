/* SPDX-License-Identifier: BSD-3-Clause */
/* root_start.c - starts roots: of a job, or of the unique ids of this process */
#include "root_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/forkguard.h"
#include "lib/base/net/identity.h"
#include "lib/base/random.h"
#include "lib/base/thread.h"

#define STRANGERS_MOST 256 /* clients that have not proved that they know the key */
#define STRANGERS_LEAST 4
#define STACK_BYTES (256 << 10)
#define TELL_MS 1000 /* for the root's thread to tell ranks that this rank has given up */

pthread_mutex_t rootLock = PTHREAD_MUTEX_INITIALIZER;

static struct root *roots;				   /* of this process; under rootLock */
static struct root *idRoot;				   /* the handle of its root */
static pthread_mutex_t idLock = PTHREAD_MUTEX_INITIALIZER; /* of rootMakeId() */

/* In a forked child no thread would release locks that another thread held at the fork. */
static void beforeFork(void)
{
	pthread_mutex_lock(&idLock);
	pthread_mutex_lock(&rootLock);
}

static void afterFork(void)
{
	pthread_mutex_unlock(&rootLock);
	pthread_mutex_unlock(&idLock);
}

static void guardLocks(void)
{
	pthread_atfork(beforeFork, afterFork, afterFork);
}

static void setHandle(struct root **handle, struct root *root)
{
	pthread_mutex_lock(&rootLock);
	if (handle)
		*handle = root;
	if (root) {
		root->next = roots;
		roots = root;
	}
	pthread_mutex_unlock(&rootLock);
}

void rootUnlink(const struct root *root)
{
	pthread_mutex_lock(&rootLock);
	for (struct root **at = &roots; *at; at = &(*at)->next)
		if (*at == root) {
			*at = root->next;
			break;
		}
	pthread_mutex_unlock(&rootLock);
}

static int isAt(const struct root *root, const struct rootContact *contact)
{
	return root->pid == getpid() && (!root->port || root->port == contact->port) &&
	       (!contact->hostId || contact->hostId == identityHostId());
}

/* The key of a contact, and the root that has it; or NULL. The caller holds rootLock. */
static struct rootKey *findHere(const struct rootContact *contact, struct root **of)
{
	for (struct root *root = roots; root; root = root->next)
		for (struct authKey *key = root->keys; key && isAt(root, contact); key = key->next)
			if (!memcmp(key->bytes, contact->key, sizeof(key->bytes))) {
				*of = root;
				return (struct rootKey *)key;
			}
	return NULL;
}

int rootIsHere(const struct rootContact *contact)
{
	struct root *of;

	pthread_mutex_lock(&rootLock);
	int found = findHere(contact, &of) != NULL;
	pthread_mutex_unlock(&rootLock);
	return found;
}

/* Have the ranks been told? */
static int giveUp(const struct rootContact *contact, const char *why)
{
	struct root *of;

	pthread_mutex_lock(&rootLock);
	struct rootKey *key = findHere(contact, &of);
	int told = !key || key->hasTold;
	if (key && !key->givenUp)
		key->givenUp = strdup(why);
	if (!told)
		__atomic_store_n(&of->someGivenUp, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&rootLock);
	return told;
}

void rootGiveUp(const struct rootContact *contact, const char *why)
{
	for (int ms = 0; ms < TELL_MS && !giveUp(contact, why); ms++)
		usleep(1000);
}

/* Strangers leave most file descriptors to the program. */
static int mostStrangers(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur / 8 > STRANGERS_MOST)
		return STRANGERS_MOST;
	return files.rlim_cur / 8 < STRANGERS_LEAST ? STRANGERS_LEAST : (int)files.rlim_cur / 8;
}

static struct rootKey *makeKey(const uint8_t bytes[AUTH_KEY_BYTES], int isId)
{
	struct rootKey *key = calloc(1, sizeof(*key));

	if (!key)
		return NULL;
	memcpy(key->auth.bytes, bytes, sizeof(key->auth.bytes));
	key->isId = isId;
	return key;
}

/* `settings` has the listener, which the root takes over, as the key. */
static struct root *makeRoot(const struct root *settings, struct rootKey *key)
{
	struct root *root = malloc(sizeof(*root));

	if (!root || !key) {
		free(root);
		free(key);
		close(settings->listener);
		return NULL;
	}
	*root = *settings;
	root->keys = &key->auth;
	root->most = mostStrangers();
	root->users = 1;
	root->busy = clockNow();
	root->pid = getpid();
	gethostname(root->host, sizeof(root->host) - 1);
	return root;
}

static int startRoot(const struct root *settings, struct rootKey *key)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct root *root = makeRoot(settings, key);
	struct root **handle = settings->handle;
	pthread_t thread;

	if (!root)
		return -1;
	forkGuard(root->listener);
	pthread_once(&once, guardLocks); /* after the fork guard's, whose lock is the inner one */
	root->poll = fileAboveStandard(epoll_create1(EPOLL_CLOEXEC));
	if (root->poll < 0 || rootPoll(root, root->listener, NULL))
		goto failed;
	setHandle(handle, root);
	errno = threadStartSized(&thread, "gin-root", STACK_BYTES, rootThread, root);
	if (errno)
		goto failed;
	pthread_detach(thread);
	return 0;

failed:;
	int reason = errno;
	setHandle(handle, NULL);
	rootFree(root);
	errno = reason;
	return -1;
}

int rootStart(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job, unsigned seconds)
{
	struct root settings = {.listener = listener, .groups = {.seconds = seconds}};

	snprintf(settings.job, sizeof(settings.job), "%s", job);
	return startRoot(&settings, makeKey(key, 0));
}

int rootStartUsed(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job,
		  unsigned seconds, struct root **handle)
{
	struct root settings = {.listener = listener,
				.handle = handle,
				.linger = ROOT_LINGER,
				.groups = {.seconds = seconds, .mayMix = 1}};

	snprintf(settings.job, sizeof(settings.job), "%s", job);
	return startRoot(&settings, makeKey(key, 0));
}

int rootUse(struct root **handle)
{
	pthread_mutex_lock(&rootLock);
	int runs = *handle != NULL;
	if (runs)
		__atomic_fetch_add(&(*handle)->users, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&rootLock);
	return runs;
}

void rootRelease(struct root **handle)
{
	pthread_mutex_lock(&rootLock);
	if (*handle)
		__atomic_fetch_sub(&(*handle)->users, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&rootLock);
}

static int cannotListen(char *why)
{
	snprintf(why, BOOTSTRAP_WHY, "cannot listen for the other ranks: %m");
	return -1;
}

static void fillContact(struct rootContact *contact, const char *ifname)
{
	contact->magic = ROOT_MAGIC;
	contact->hostId = identityHostId();
	contact->addresses = (uint16_t)socketAddresses(ifname, contact->address, ROOT_ADDRESSES);
}

int rootMake(struct rootContact *contact, const char *ifname, unsigned seconds, char *why)
{
	struct rootContact made = {.magic = 0};

	if (randomBytes(made.key, sizeof(made.key)))
		return cannotListen(why);
	int listener = socketListen(NULL, &made.port);
	if (listener < 0 || rootStart(listener, made.key, "", seconds))
		return cannotListen(why);
	fillContact(&made, ifname);
	*contact = made;
	return 0;
}

/* Keeps the ROOT_IDS newest of the ids that no rank has used. The caller holds the lock. */
static void dropUnused(struct root *root)
{
	struct authKey **oldest = NULL;
	unsigned unused = 0;

	for (struct authKey **at = &root->keys; *at; at = &(*at)->next)
		if (!((const struct rootKey *)*at)->isUsed) {
			unused++;
			oldest = at;
		}
	if (unused > ROOT_IDS)
		rootKeyDrop(root, oldest);
}

/*
 * Adds an id to the root that runs. Returns its port; 0: there is no root, or only in the parent
 * process.
 */
static uint16_t addId(struct rootKey *key)
{
	uint16_t port = 0;

	pthread_mutex_lock(&rootLock);
	if (idRoot && idRoot->pid == getpid()) {
		key->auth.next = idRoot->keys;
		idRoot->keys = &key->auth;
		__atomic_fetch_add(&idRoot->users, 1, __ATOMIC_RELAXED);
		dropUnused(idRoot);
		port = idRoot->port;
	}
	pthread_mutex_unlock(&rootLock);
	return port;
}

static int startIds(struct rootKey *key, unsigned seconds, uint16_t *port)
{
	struct root settings = {.handle = &idRoot, .groups = {.seconds = seconds}};

	settings.listener = socketListen(NULL, &settings.port);
	if (settings.listener < 0) {
		free(key);
		return -1;
	}
	*port = settings.port;
	return startRoot(&settings, key);
}

int rootMakeId(struct rootContact *contact, const char *ifname, unsigned seconds, char *why)
{
	struct rootContact made = {.magic = 0};
	int failed = 0;

	if (randomBytes(made.key, sizeof(made.key)))
		return cannotListen(why);
	struct rootKey *key = makeKey(made.key, 1);
	if (!key)
		return cannotListen(why);
	pthread_mutex_lock(&idLock);
	made.port = addId(key);
	if (!made.port)
		failed = startIds(key, seconds, &made.port);
	pthread_mutex_unlock(&idLock);
	if (failed)
		return cannotListen(why);
	fillContact(&made, ifname);
	*contact = made;
	return 0;
}
