/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window_inherit.c - registers windows of a communicator again, with the one that shrinking it has
 * made
 */
#include <search.h>
#include <stdlib.h>

#include "window.h"

/* Windows of the older communicator, by ascending serial; local ones come first. */
struct inheritance {
	ginComm_t from;
	struct window **window;
	size_t count, room;
	int failed;
};

static void addWindow(const void *node, VISIT visit, void *to)
{
	struct inheritance *all = to;
	struct window *w = *(struct window *const *)node;

	if ((visit != postorder && visit != leaf) || w->isRetired)
		return;
	if (all->count == all->room) {
		size_t room = all->room ? 2 * all->room : 16;
		struct window **more = realloc(all->window, room * sizeof(struct window *));
		if (!more) {
			all->failed = 1;
			return;
		}
		all->window = more;
		all->room = room;
	}
	all->window[all->count++] = w;
}

static int compareSerials(const void *a, const void *b)
{
	uint64_t x = (*(struct window *const *)a)->serial, y = (*(struct window *const *)b)->serial;

	return (x > y) - (x < y);
}

static ginResult_t listWindows(struct inheritance *all)
{
	pthread_mutex_lock(&all->from->lock);
	twalk_r(all->from->windows, addWindow, all);
	pthread_mutex_unlock(&all->from->lock);
	if (all->failed)
		return fail(ginErrorSystem, "no memory");
	if (all->count)
		qsort(all->window, all->count, sizeof(struct window *), compareSerials);
	return ginSuccess;
}

static ginResult_t inherit(ginComm_t to, ginComm_t from, const struct window *w)
{
	struct window *made = NULL;
	ginResult_t result =
		windowMake(to, ginSuccess, w->ptr, w->bytes[from->rank], w->isLocal, &made);

	if (result == ginSuccess)
		made->inherited = w->handle;
	return result;
}

/* The first local windows, which need no other rank. */
static ginResult_t inheritLocal(ginComm_t to, const struct inheritance *all, size_t *next)
{
	ginResult_t result = ginSuccess;

	for (; *next < all->count && all->window[*next]->isLocal && result == ginSuccess; ++*next)
		result = inherit(to, all->from, all->window[*next]);
	return result;
}

/*
 * Collective: compares the next serial of each rank; the ranks inherit a window only if all have
 * it. A rank that died during ginWindowRegister() may have left some ranks with the window, and
 * others without.
 */
static ginResult_t nextSerial(ginComm_t to, ginResult_t mine, uint64_t own, uint64_t *most,
			      int *isCommon)
{
	uint64_t *all = calloc((size_t)to->nRanks, sizeof(*all));

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	mine = controlAllgather(&to->control, "ginCommShrink", mine, &own, all, sizeof(own));
	*isCommon = 1;
	*most = 0;
	for (int r = 0; mine == ginSuccess && r < to->nRanks; r++) {
		*isCommon &= all[r] == all[0];
		*most = all[r] > *most ? all[r] : *most;
	}
	free(all);
	return mine;
}

/* Also the last agreement of ginCommShrink(). */
static ginResult_t inheritShared(ginComm_t to, ginResult_t mine, const struct inheritance *all,
				 size_t next)
{
	uint64_t most;
	int isCommon;

	for (;;) {
		uint64_t own = next < all->count ? all->window[next]->serial : UINT64_MAX;
		mine = nextSerial(to, mine, own, &most, &isCommon);
		if (mine != ginSuccess || (isCommon && most == UINT64_MAX))
			return mine;
		if (isCommon)
			mine = inherit(to, all->from, all->window[next++]);
		while (next < all->count && all->window[next]->serial < most)
			next++;
		if (mine != ginSuccess)
			return mine;
	}
}

ginResult_t windowsInherit(ginComm_t to, ginComm_t from)
{
	struct inheritance all = {.from = from};
	struct deviceScope scope;
	size_t next = 0;
	ginResult_t entered = deviceEnter(&to->device, &scope), result = entered;

	if (result == ginSuccess)
		result = listWindows(&all);
	if (result == ginSuccess)
		result = inheritLocal(to, &all, &next);
	result = inheritShared(to, result, &all, next);
	if (result != ginSuccess)
		windowsDrop(to);
	if (entered == ginSuccess)
		deviceLeave(&to->device, &scope);
	free(all.window);
	return result;
}

/* Windows whose `inherited` is a handle. */
struct inheritor {
	const void *table;
	const struct window *found;
};

static void findInheritor(const void *node, VISIT visit, void *to)
{
	struct inheritor *find = to;
	const struct window *w = *(struct window *const *)node;

	if ((visit == postorder || visit == leaf) && w->inherited.table == find->table &&
	    !w->isRetired)
		find->found = w;
}

ginResult_t ginWindowInherited(ginComm_t comm, ginWindow_t old, ginWindow_t *window)
{
	ginResult_t result = commEnter(comm, "ginWindowInherited");
	struct inheritor find = {.table = old.table};

	if (result != ginSuccess)
		return result;
	if (!window || !old.table)
		return fail(ginErrorInvalidArgument, "%s is NULL", window ? "old" : "window");
	pthread_mutex_lock(&comm->lock);
	twalk_r(comm->windows, findInheritor, &find);
	pthread_mutex_unlock(&comm->lock);
	if (!find.found)
		return fail(ginErrorInvalidArgument,
			    "the communicator has inherited no window from old: was old registered "
			    "on every rank that went on, and not retired?");
	*window = find.found->handle;
	return ginSuccess;
}
