/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * variants.h - the kernels: X(name, function, class in kernels.cuh)
 *
 * The entry point of a variant in the fatbin is gin_ep::NAME::FUNCTION(epArgs). Profiles of a call
 * have one kernel, whose name has "dispatch" or "combine" in it: DeepEP's tests ask for that.
 */
#ifndef GIN_EP_VARIANTS_H
#define GIN_EP_VARIANTS_H

#define EP_VARIANTS(X)                                                                             \
	X(MakeList, list, EpMakeList)                                                              \
	X(CountList, list, EpCountList)                                                            \
	X(DirectBf16, dispatch, EpPhases<EpDispatchSend<true, epCastNone>, EpDispatchRecv<true>>)  \
	X(DirectToF8, dispatch, EpPhases<EpDispatchSend<true, epCastToF8>, EpDispatchRecv<true>>)  \
	X(DirectF8, dispatch, EpPhases<EpDispatchSend<true, epCastF8>, EpDispatchRecv<true>>)      \
	X(DirectBytes, dispatch,                                                                   \
	  EpPhases<EpDispatchSend<true, epCastBytes>, EpDispatchRecv<true, true>>)                 \
	X(PlainBf16, dispatch,                                                                     \
	  EpBoth<EpDispatchSend<true, epCastNone>, EpDispatchRecv<true>, true>)                    \
	X(PlainToF8, dispatch,                                                                     \
	  EpBoth<EpDispatchSend<true, epCastToF8>, EpDispatchRecv<true>, true>)                    \
	X(PlainF8, dispatch, EpBoth<EpDispatchSend<true, epCastF8>, EpDispatchRecv<true>, true>)   \
	X(PlainBytes, dispatch,                                                                    \
	  EpBoth<EpDispatchSend<true, epCastBytes>, EpDispatchRecv<true, true>, true>)             \
	X(MixedBf16, dispatch, EpPhases<EpDispatchSend<false, epCastNone>, EpDispatchRecv<false>>) \
	X(MixedToF8, dispatch, EpPhases<EpDispatchSend<false, epCastToF8>, EpDispatchRecv<false>>) \
	X(MixedF8, dispatch, EpPhases<EpDispatchSend<false, epCastF8>, EpDispatchRecv<false>>)     \
	X(MixedBytes, dispatch,                                                                    \
	  EpPhases<EpDispatchSend<false, epCastBytes>, EpDispatchRecv<false, true>>)               \
	X(DirectRank, combine, EpCombine<true, GIN_EP_REDUCE_RANK>)                                \
	X(DirectNone, combine, EpCombine<true, GIN_EP_REDUCE_NONE>)                                \
	X(BothRank, combine, EpCombineBoth<GIN_EP_REDUCE_RANK>)                                    \
	X(BothNone, combine, EpCombineBoth<GIN_EP_REDUCE_NONE>)                                    \
	X(MixedRank, combine, EpCombine<false, GIN_EP_REDUCE_RANK>)                                \
	X(MixedNone, combine, EpCombine<false, GIN_EP_REDUCE_NONE>)                                \
	X(HtLayout, layout, EpHtLayout)                                                            \
	X(HtNotify, notify, EpHtNotify)                                                            \
	X(HtDispatch, dispatch, EpHtDispatch)                                                      \
	X(HtCombine, combine, EpHtCombine)                                                         \
	X(HtRailNotify, notify, EpHtRailNotify)                                                    \
	X(HtRailPlaces, notify, EpHtRailPlaces)                                                    \
	X(HtRailDispatch, dispatch, EpHtRailDispatch)                                              \
	X(HtRailCombine, combine, EpHtRailCombine)                                                 \
	X(Mask, control, EpMask)                                                                   \
	X(Flush, control, EpFlush)                                                                 \
	X(Reset, control, EpReset)

#define EP_VARIANT_NUMBER(name, ...) epVariant##name,
enum epVariant { EP_VARIANTS(EP_VARIANT_NUMBER) EP_VARIANT_COUNT };
#undef EP_VARIANT_NUMBER

#endif
