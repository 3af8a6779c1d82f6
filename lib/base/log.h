/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - lines on standard error, as GIN_LOG asks for them */
#ifndef GIN_LIB_LOG_H
#define GIN_LIB_LOG_H

enum logLevel { logNone, logError, logWarn, logInfo, logStats, logDebug };

/* Does a line of this level go anywhere? */
int logWants(enum logLevel level);

/* One line: "host:pid:tid gin LEVEL text". Any thread. */
void logWrite(enum logLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
