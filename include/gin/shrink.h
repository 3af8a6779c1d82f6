/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.h - included by gin.h: calls to go on without ranks that have died or are too slow */
#ifndef GIN_SHRINK_H
#define GIN_SHRINK_H

/*
 * ginCommMask - this rank goes on as if `rank` had died
 *
 * Not collective; any thread, also while kernels run. Only this rank is affected, and only calls on
 * `comm`. Device calls to `rank` return ginErrorPeer at once, and so do waits and barriers that
 * depend on it: waits that name it in ginOptions.from, barriers of teams that have it. Other waits
 * go on, even if `rank` dies or has died before. Earlier posts of this rank to `rank` may still
 * arrive, and `rank` may still write here. Collective calls of `comm` need `rank` as before, except
 * for ginCommShrink(), which leaves it out. A mask stays; new communicators begin without masks.
 *
 * ginErrorInvalidArgument: `rank` is not another rank of `comm`. ginErrorCuda.
 */
ginResult_t ginCommMask(ginComm_t comm, int rank);

/*
 * ginCommShrink - go on without ranks that have died
 *
 * Collective over the ranks that go on. They get a new communicator, in which they keep their order
 * and are numbered from 0. `comm` may be healthy, may have failed, or may have been aborted; any of
 * its ranks may be dead, rank 0 too. Left out are ranks that have died or have destroyed `comm`,
 * ranks that are masked, and the `excludes` ranks at `exclude`, which may be NULL with 0. Ranks may
 * pass different lists: a rank is left out if any rank excludes or masks it, and must not make the
 * call. All ranks that go on agree on one set. If a rank dies meanwhile, the others agree on a
 * smaller set.
 *
 * The new communicator inherits the windows of `comm`, except for retired ones:
 * ginWindowInherited() gives their handles. `comm` does not change, and is destroyed as usual.
 * Before the call each rank destroys its device communicators of `comm`, which ends its transfers:
 * otherwise they could arrive later.
 *
 * ginErrorInvalidArgument, ginErrorTimeout, ginErrorPeer: this rank is left out; ginErrorAborted,
 * and the errors of ginCommInit() and ginWindowRegister().
 */
ginResult_t ginCommShrink(ginComm_t comm, const int *exclude, int excludes, ginComm_t *survivors);

/*
 * ginWindowInherited - the window that a communicator of ginCommShrink() has inherited
 *
 * Not collective. Any thread. `old` is a handle of the communicator that was shrunk, which may have
 * been destroyed. Both windows are registered separately, of one memory: deregister each.
 */
ginResult_t ginWindowInherited(ginComm_t comm, ginWindow_t old, ginWindow_t *window);

#endif
