/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * variants.h - the kernels: X(name, class in kernels.cuh)
 *
 * The entry point of a variant in the fatbin is gin_ep_NAME.
 */
#ifndef GIN_EP_VARIANTS_H
#define GIN_EP_VARIANTS_H

#define EP_VARIANTS(X)                                                                             \
	X(MakeList, EpMakeList)                                                                    \
	X(CountList, EpCountList)                                                                  \
	X(SendDirectBf16, EpDispatchSend<true, epCastNone>)                                        \
	X(SendDirectToF8, EpDispatchSend<true, epCastToF8>)                                        \
	X(SendDirectF8, EpDispatchSend<true, epCastF8>)                                            \
	X(SendMixedBf16, EpDispatchSend<false, epCastNone>)                                        \
	X(SendMixedToF8, EpDispatchSend<false, epCastToF8>)                                        \
	X(SendMixedF8, EpDispatchSend<false, epCastF8>)                                            \
	X(Recv, EpDispatchRecv)                                                                    \
	X(CombineDirectRank, EpCombineSend<true, GIN_EP_REDUCE_RANK>)                              \
	X(CombineDirectNone, EpCombineSend<true, GIN_EP_REDUCE_NONE>)                              \
	X(CombineMixedRank, EpCombineSend<false, GIN_EP_REDUCE_RANK>)                              \
	X(CombineMixedNone, EpCombineSend<false, GIN_EP_REDUCE_NONE>)                              \
	X(SumRank, EpCombineRecv<GIN_EP_REDUCE_RANK>)                                              \
	X(SumNone, EpCombineRecv<GIN_EP_REDUCE_NONE>)                                              \
	X(Mask, EpMask)                                                                            \
	X(Flush, EpFlush)                                                                          \
	X(Reset, EpReset)

#define EP_VARIANT_NUMBER(name, ...) epVariant##name,
enum epVariant { EP_VARIANTS(EP_VARIANT_NUMBER) EP_VARIANT_COUNT };
#undef EP_VARIANT_NUMBER

#endif
