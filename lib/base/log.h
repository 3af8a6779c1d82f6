/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - lines on standard error, by GIN_LOG */
#ifndef GIN_LIB_LOG_H
#define GIN_LIB_LOG_H

enum logLevel { logNone, logError, logWarn, logInfo, logStats, logDebug };

/* Does GIN_LOG include this level? */
int logWants(enum logLevel level);

/* One line: "host:pid:tid gin LEVEL text". Any thread. */
void logWrite(enum logLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
