/* SPDX-License-Identifier: BSD-3-Clause */
/* recover_datagram.h - a datagram of recover_peer.c that a test makes, for at most 8 ranks */
#ifndef GIN_TEST_RECOVER_DATAGRAM_H
#define GIN_TEST_RECOVER_DATAGRAM_H

#include "lib/control/recover_internal.h"

struct recoverDatagram {
	struct recoverHeader h;
	uint8_t out[1];
	uint8_t entries[2 * RECOVER_ENTRY];
};

#define RECOVER_BARE offsetof(struct recoverDatagram, entries) /* bytes without entries */

static inline void recoverSign(const uint8_t *key, struct recoverDatagram *d, size_t bytes)
{
	static const char label[] = "gin recovery";
	const size_t unsignedBytes = sizeof(d->h.hash);
	uint8_t derived[AUTH_KEY_BYTES];

	authDerive(key, label, sizeof(label), derived);
	d->h.hash = siphash(derived, (const uint8_t *)d + unsignedBytes, bytes - unsignedBytes);
}

#endif
