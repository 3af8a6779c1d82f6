/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - lines on standard error or in a file, by GIN_LOG and GIN_LOG_FILE */
#ifndef GIN_LIB_LOG_H
#define GIN_LIB_LOG_H

enum logLevel { logNone, logError, logWarn, logInfo, logStats, logDebug };

/* Does GIN_LOG include this level? */
int logWants(enum logLevel level);

/*
 * The process has a rank: from the first call on, lines go to the file that GIN_LOG_FILE names,
 * before to standard error.
 */
void logRank(int rank);

/*
 * Makes a path of a pattern with %h, %r, %p and %%, as GIN_LOG_FILE has; `path` has PATH_MAX bytes.
 * Returns 0 if it does not fit.
 */
int logPath(char *path, const char *pattern, int rank);

/* One line: time, host:pid:tid, rank by errorScope(), "gin LEVEL text". Any thread. */
void logWrite(enum logLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
