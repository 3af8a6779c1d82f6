/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * routes.cuh - which route a call takes
 *
 * `routes` is the set of routes that a kernel is compiled for: GIN_ROUTES_... of abi.h. The code of
 * the other routes is left out. The network routes, proxy and gdaki, exclude each other in one
 * device communicator.
 */
#ifndef GIN_ROUTES_CUH
#define GIN_ROUTES_CUH

#include "ordering.cuh"

#define GIN_ROUTES_NETWORK (GIN_ROUTES_PROXY | GIN_ROUTES_GDAKI)

/*
 * The route to a peer: direct, or the network route of the device communicator. Needs no load if
 * all peers have one route. A kernel for direct peers alone checks the route together with the
 * state.
 */
template <uint32_t routes> GIN_FN uint32_t ginRouteTo(const ginDevComm &dc, int peer)
{
	if constexpr (routes == GIN_ROUTES_DIRECT)
		return ginRouteDirect;
	uint32_t route = ginUnshared(dc.route);
	return route != ginRouteNone ? route : ginPeerRoute(&dc.peers[peer]);
}

/* Is there a peer on a network route? */
template <uint32_t routes> GIN_FN bool ginHasNetwork(const ginDevComm &dc)
{
	return routes & GIN_ROUTES_NETWORK && ginUnshared(dc.route) != ginRouteDirect;
}

/* Is the network route of the device communicator gdaki? */
template <uint32_t routes> GIN_FN bool ginHasNic(const ginDevComm &dc)
{
	return routes & GIN_ROUTES_GDAKI && ginUnshared(dc.sendQueues);
}

/* Is the network route of the device communicator proxy? */
template <uint32_t routes> GIN_FN bool ginHasProxy(const ginDevComm &dc)
{
	return routes & GIN_ROUTES_PROXY && ginUnshared(dc.queues);
}

/* The network route of the device communicator; ginRouteNone: every peer is direct. */
template <uint32_t routes> GIN_FN uint32_t ginNetworkRoute(const ginDevComm &dc)
{
	if (ginHasNic<routes>(dc))
		return ginRouteGdaki;
	return ginHasProxy<routes>(dc) ? ginRouteProxy : ginRouteNone;
}

#endif
