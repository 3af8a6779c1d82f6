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
	X(BothBf16, EpBoth<EpDispatchSend<true, epCastNone>, EpDispatchRecv<true>>)                \
	X(BothToF8, EpBoth<EpDispatchSend<true, epCastToF8>, EpDispatchRecv<true>>)                \
	X(BothF8, EpBoth<EpDispatchSend<true, epCastF8>, EpDispatchRecv<true>>)                    \
	X(PlainBf16, EpBoth<EpDispatchSend<true, epCastNone, true>, EpDispatchRecv<true, true>>)   \
	X(PlainToF8, EpBoth<EpDispatchSend<true, epCastToF8, true>, EpDispatchRecv<true, true>>)   \
	X(PlainF8, EpBoth<EpDispatchSend<true, epCastF8, true>, EpDispatchRecv<true, true>>)       \
	X(RecvDirect, EpDispatchRecv<true>)                                                        \
	X(RecvMixed, EpDispatchRecv<false>)                                                        \
	X(CombineDirectRank, EpCombineSend<true, GIN_EP_REDUCE_RANK>)                              \
	X(CombineDirectNone, EpCombineSend<true, GIN_EP_REDUCE_NONE>)                              \
	X(CombineMixedRank, EpCombineSend<false, GIN_EP_REDUCE_RANK>)                              \
	X(CombineMixedNone, EpCombineSend<false, GIN_EP_REDUCE_NONE>)                              \
	X(SumDirectRank, EpCombineRecv<true, GIN_EP_REDUCE_RANK>)                                  \
	X(SumDirectNone, EpCombineRecv<true, GIN_EP_REDUCE_NONE>)                                  \
	X(SumMixedRank, EpCombineRecv<false, GIN_EP_REDUCE_RANK>)                                  \
	X(SumMixedNone, EpCombineRecv<false, GIN_EP_REDUCE_NONE>)                                  \
	X(CombineBothRank, EpBoth<EpCombineSend<true, GIN_EP_REDUCE_RANK>,                         \
				  EpCombineRecv<true, GIN_EP_REDUCE_RANK>>)                        \
	X(CombineBothNone, EpBoth<EpCombineSend<true, GIN_EP_REDUCE_NONE>,                         \
				  EpCombineRecv<true, GIN_EP_REDUCE_NONE>>)                        \
	X(Mask, EpMask)                                                                            \
	X(Flush, EpFlush)                                                                          \
	X(Reset, EpReset)

#define EP_VARIANT_NUMBER(name, ...) epVariant##name,
enum epVariant { EP_VARIANTS(EP_VARIANT_NUMBER) EP_VARIANT_COUNT };
#undef EP_VARIANT_NUMBER

#endif
