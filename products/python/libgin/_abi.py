# SPDX-License-Identifier: BSD-3-Clause
"""Layouts, constants and prototypes of libgin. Written by mk/gen_python_abi.py: `make abi`."""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)

GIN_BARRIER_ROUNDS = 32
GIN_CPU_WORD_STRIDE = 4
GIN_DEVICE_ABI = 18
GIN_DIRECT_SIGNALS = 16
GIN_LINE_MASKED = -2
GIN_MAX_CONTEXTS = 1024
GIN_QUEUE_RESULTS = 32
GIN_TRACE_NONE = 0x7fffffff
GIN_WAITS = 32
GIN_WINDOW_MAGIC = 0x6e696c646e697767
GIN_ALLGATHER_BYTES = 65536
GIN_COUNTED_BYTES = 2
GIN_COUNTED_POSTS = 1
GIN_DEVICE_AUTO = -1
GIN_DEVICE_NONE = -2
GIN_HISTOGRAM_BUCKETS = 40
GIN_NO_COLOR = -1
GIN_WINDOW_LOCAL = 1

# enum ginResult
ginSuccess = 0
ginErrorInvalidArgument = 1
ginErrorInvalidUsage = 2
ginErrorUnsupported = 3
ginErrorBootstrap = 4
ginErrorSystem = 5
ginErrorCuda = 6
ginErrorTimeout = 7
ginErrorAborted = 8
ginErrorPeer = 9
ginErrorAbi = 10

# enum ginRoute
ginRouteNone = 0
ginRouteDirect = 1
ginRouteProxy = 2
ginRouteGdaki = 3

# enum ginScope
ginScopeThread = 0
ginScopeCta = 1
ginScopeDevice = 2
ginScopeSystem = 3

# enum ginPeerState
ginPeerAlive = 0
ginPeerFailed = 1
ginPeerUnconnected = 2

# enum ginWriterClass
ginWriterGpu = 0
ginWriterNic = 1
ginWriterCpu = 2
GIN_WRITER_CLASSES = 3

# enum ginAgent
ginAgentGpu = 0
ginAgentProxy = 1
ginAgentNic = 2
ginAgentNone = 3

# enum ginCall
ginCallNone = 0
ginCallPut = 1
ginCallPutValue = 2
ginCallSignal = 3
ginCallWaitSignal = 4
ginCallGet = 5
ginCallAtomic = 6
ginCallWaitCounter = 7
ginCallBarrier = 8
ginCallFlush = 9
ginCallWaitValue = 10
ginCallPacketsSend = 11
ginCallPacketsReceive = 12
ginCallReadSignal = 13
ginCallResetSignal = 14
ginCallReadCounter = 15
ginCallResetCounter = 16
ginCallReadValue = 17
ginCallShadow = 18
ginCallEpDispatch = 32
ginCallEpCombine = 33
ginCallEpNotify = 34
ginCallEpCredit = 35

# enum ginArgument
ginArgumentNone = 0
ginArgumentContext = 1
ginArgumentPeer = 2
ginArgumentTarget = 3
ginArgumentSource = 4
ginArgumentSignal = 5
ginArgumentCounter = 6
ginArgumentBarrier = 7
ginArgumentTeam = 8
ginArgumentBox = 9
ginArgumentLength = 10
ginArgumentCoop = 11
ginArgumentBits = 12
ginArgumentFrom = 13
ginArgumentWord = 14
ginArgumentMost = 15
ginArgumentSignals = 16

# enum ginFault
ginFaultNone = 0
ginFaultRange = 1
ginFaultWindow = 2
ginFaultEnd = 3
ginFaultAlignment = 4
ginFaultBlock = 5
ginFaultDiffers = 6
ginFaultBits = 7
ginFaultNoWindow = 8
ginFaultGone = 9
ginFaultLocal = 10
ginFaultOverlap = 11
ginFaultBegin = 12

# enum ginSignalKind
ginSignalNone = 0
ginSignalStrong = 1
ginSignalWeak = 2

# enum ginCoopKind
ginCoopThread = 0
ginCoopWarp = 1
ginCoopCta = 2
ginCoopSpan = 3

ginAllgather_t = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)

ginPoll_t = CFUNCTYPE(c_int, c_void_p)

ginReleased_t = CFUNCTYPE(None, c_void_p)


class ginWindow(Structure):
    _fields_ = [
        ("table", c_void_p),
    ]


class ginErrorRecord(Structure):
    _fields_ = [
        ("valid", c_uint32),
        ("result", c_uint32),
        ("call", c_uint32),
        ("context", c_uint32),
        ("peer", c_int32),
        ("id", c_uint32),
        ("expected", c_uint64),
        ("seen", c_uint64),
        ("argument", c_uint32),
        ("fault", c_uint32),
    ]


class ginDevComm(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("abi", c_uint32),
        ("rank", c_uint32),
        ("nRanks", c_uint32),
        ("domainRank", c_uint32),
        ("domainSize", c_uint32),
        ("contexts", c_uint32),
        ("signals", c_uint32),
        ("counters", c_uint32),
        ("barriers", c_uint32),
        ("route", c_uint32),
        ("engineBytes", c_uint32),
        ("timeout", c_uint64),
        ("peers", c_void_p),
        ("signal", c_void_p * 3),
        ("counter", c_void_p),
        ("shadow", c_void_p),
        ("epoch", c_void_p),
        ("abortLine", c_void_p),
        ("abort", c_void_p),
        ("errorRecord", c_void_p),
        ("errorClaim", c_void_p),
        ("id", c_uint64),
        ("directSignals", c_void_p * 16),
        ("queues", c_void_p),
        ("hostCounter", c_void_p),
        ("signalMirror", c_void_p),
        ("counterMirror", c_void_p),
        ("sendQueues", c_void_p),
        ("results", c_void_p),
        ("sources", c_void_p),
        ("nSendQueues", c_uint32),
        ("pad2", c_uint32),
        ("self", c_void_p),
        ("waits", c_void_p),
        ("waitClaims", c_void_p),
        ("trace", c_void_p),
    ]


class ginConfig(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_int),
        ("allgather", ginAllgather_t),
        ("allgatherArg", c_void_p),
        ("rank", c_int),
        ("nRanks", c_int),
        ("name", c_char_p),
        ("backend", c_char_p),
        ("copyEngines", c_int),
        ("poll", ginPoll_t),
        ("pollArg", c_void_p),
    ]


class ginUniqueId(Structure):
    _fields_ = [
        ("bytes", c_char * 128),
    ]


class ginPeerInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("route", c_uint32),
        ("sameHost", c_int),
        ("sameProcess", c_int),
        ("host", c_char * 64),
        ("device", c_char * 96),
        ("backend", c_char * 16),
        ("why", c_char * 160),
    ]


class ginCommInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int),
        ("nRanks", c_int),
        ("localRank", c_int),
        ("localRanks", c_int),
        ("hosts", c_int),
        ("device", c_int),
        ("backends", c_int),
        ("bootstrap", c_char * 16),
        ("host", c_char * 64),
        ("deviceName", c_char * 96),
        ("deviceAtomics", c_int),
        ("domainRank", c_int),
        ("domainSize", c_int),
        ("streams", c_int),
    ]


class ginBackendInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("usable", c_int),
        ("pairs", c_int),
        ("name", c_char * 16),
        ("why", c_char * 160),
    ]


class ginHistogram(Structure):
    _fields_ = [
        ("count", c_uint64),
        ("sum", c_uint64),
        ("most", c_uint64),
        ("bucket", c_uint64 * 40),
    ]


class ginStats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("posted", c_uint64),
        ("completed", c_uint64),
        ("failed", c_uint64),
        ("putBytes", c_uint64),
        ("getBytes", c_uint64),
        ("waitsForRoom", c_uint64),
        ("sleeps", c_uint64),
        ("batch", ginHistogram),
        ("takenToReleased", ginHistogram),
        ("takenToVisible", ginHistogram),
        ("cpus", c_char * 64),
        ("counted", c_uint32),
        ("pad", c_uint32),
    ]


class ginPeerStats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("route", c_uint32),
        ("counted", c_uint32),
        ("posted", c_uint64),
        ("completed", c_uint64),
        ("failed", c_uint64),
        ("putBytes", c_uint64),
        ("getBytes", c_uint64),
    ]


class ginParamInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_int),
        ("isSet", c_int),
        ("isBad", c_int),
        ("name", c_char_p),
        ("choices", c_char_p),
        ("value", c_char_p),
        ("preset", c_char_p),
        ("meaning", c_char_p),
    ]


class ginDeviceInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_int),
        ("usable", c_int),
        ("domain", c_int),
        ("numaNode", c_int),
        ("computeMajor", c_int),
        ("computeMinor", c_int),
        ("driverVersion", c_int),
        ("memoryBytes", c_uint64),
        ("name", c_char * 96),
        ("uuid", c_char * 40),
        ("pciBusId", c_char * 32),
        ("why", c_char * 160),
    ]


class ginNicInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_int),
        ("usable", c_int),
        ("port", c_int),
        ("name", c_char * 64),
        ("why", c_char * 320),
    ]


class ginDevCommRequirements(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("contexts", c_uint32),
        ("signals", c_uint32),
        ("timeout", c_uint64),
        ("counters", c_uint32),
        ("barriers", c_uint32),
        ("queueDepth", c_uint32),
        ("routes", c_uint64),
        ("trafficClass", c_int32),
        ("unconnected", c_void_p),
        ("streams", c_uint32),
    ]


class ginPlanPhase(Structure):
    _fields_ = [
        ("messages", c_uint64),
        ("received", c_uint64),
        ("relayed", c_uint64),
        ("regions", c_uint64),
        ("heap", c_uint64),
        ("pinned", c_uint64),
        ("device", c_uint64),
    ]


class ginPlanInfo(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_int),
        ("links", c_int),
        ("queuePairs", c_uint64),
        ("addresses", c_uint64),
        ("route", c_char * 32),
        ("init", ginPlanPhase),
        ("create", ginPlanPhase),
        ("window", ginPlanPhase),
    ]


# name: result, arguments
FUNCTIONS = {
    "ginCommInit": (c_int, (POINTER(ginConfig), POINTER(c_void_p))),
    "ginGetUniqueId": (c_int, (POINTER(ginUniqueId),)),
    "ginCommInitRank": (c_int, (POINTER(ginConfig), POINTER(ginUniqueId), c_int, c_int,
        POINTER(c_void_p))),
    "ginCommSplit": (c_int, (c_void_p, c_int, c_int, POINTER(c_void_p))),
    "ginCommDestroy": (c_int, (c_void_p,)),
    "ginCommAbort": (c_int, (c_void_p,)),
    "ginCommGetAsyncError": (c_int, (c_void_p, POINTER(c_int))),
    "ginCommRank": (c_int, (c_void_p, POINTER(c_int))),
    "ginCommSize": (c_int, (c_void_p, POINTER(c_int))),
    "ginCommDevice": (c_int, (c_void_p, POINTER(c_int))),
    "ginCommQueryPeer": (c_int, (c_void_p, c_int, POINTER(ginPeerInfo))),
    "ginCommQuery": (c_int, (c_void_p, POINTER(ginCommInfo))),
    "ginCommQueryBackend": (c_int, (c_void_p, c_int, POINTER(ginBackendInfo))),
    "ginCommProgress": (c_int, (c_void_p, POINTER(c_int))),
    "ginCommGetStats": (c_int, (c_void_p, POINTER(ginDevComm), c_uint32, POINTER(ginStats))),
    "ginCommGetPeerStats": (c_int, (c_void_p, POINTER(ginDevComm), c_int, POINTER(ginPeerStats))),
    "ginDump": (c_int, (c_int,)),
    "ginCommAllgather": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t)),
    "ginParamQuery": (c_int, (c_int, POINTER(ginParamInfo))),
    "ginDeviceQuery": (c_int, (c_int, POINTER(ginDeviceInfo))),
    "ginNicQuery": (c_int, (c_int, POINTER(ginNicInfo))),
    "ginMemAlloc": (c_int, (c_void_p, c_size_t, POINTER(c_void_p))),
    "ginMemFree": (c_int, (c_void_p, c_void_p)),
    "ginMemAllocHost": (c_int, (c_void_p, c_size_t, POINTER(c_void_p))),
    "ginWindowRegister": (c_int, (c_void_p, c_void_p, c_size_t, c_int, POINTER(ginWindow))),
    "ginWindowDeregister": (c_int, (c_void_p, ginWindow)),
    "ginWindowRetire": (c_int, (c_void_p, ginWindow, ginReleased_t, c_void_p)),
    "ginWindowPointer": (c_int, (c_void_p, ginWindow, POINTER(c_void_p))),
    "ginPeerPointer": (c_int, (c_void_p, ginWindow, c_int, POINTER(c_void_p))),
    "ginDevCommCreateAbi": (c_int, (c_void_p, POINTER(ginDevCommRequirements), c_uint32, c_size_t,
        POINTER(ginDevComm))),
    "ginDevCommDestroy": (c_int, (c_void_p, POINTER(ginDevComm))),
    "ginPutOnStream": (c_int, (c_void_p, POINTER(ginDevComm), c_uint32, c_int, ginWindow, c_size_t,
        ginWindow, c_size_t, c_size_t, c_void_p)),
    "ginPutSignalOnStream": (c_int, (c_void_p, POINTER(ginDevComm), c_uint32, c_int, ginWindow,
        c_size_t, ginWindow, c_size_t, c_size_t, c_uint32, c_uint64, c_void_p)),
    "ginSignalOnStream": (c_int, (c_void_p, POINTER(ginDevComm), c_uint32, c_int, c_uint32,
        c_uint64, c_void_p)),
    "ginWaitSignalOnStream": (c_int, (c_void_p, POINTER(ginDevComm), c_uint32, c_uint32, c_uint64,
        c_void_p)),
    "ginPlanQuery": (c_int, (c_int, c_int, POINTER(ginDevCommRequirements), POINTER(ginPlanInfo))),
    "ginDevCommGetError": (c_int, (c_void_p, POINTER(ginDevComm), POINTER(ginErrorRecord))),
    "ginGetVersion": (c_int, (POINTER(c_int),)),
    "ginGetErrorString": (c_char_p, (c_int,)),
    "ginGetLastError": (c_char_p, ()),
    "ginCommMask": (c_int, (c_void_p, c_int)),
    "ginCommShrink": (c_int, (c_void_p, POINTER(c_int), c_int, POINTER(c_void_p))),
    "ginWindowInherited": (c_int, (c_void_p, ginWindow, POINTER(ginWindow))),
}

# name: result, arguments
DEVICE_FUNCTIONS = {
    "ginPut": (
        "i32",
        "dc:ptr context:u32 peer:i32 dstWin:ptr dstOff:u64 srcWin:ptr srcOff:u64 bytes:u64 "
        "kind:u32 window:ptr where:u64 value:u64 counter:u32 coop:u32 timeout:u64"
    ),
    "ginPutFrom": (
        "i32",
        "dc:ptr context:u32 peer:i32 dstWin:ptr dstOff:u64 src:ptr bytes:u64 kind:u32 "
        "window:ptr where:u64 value:u64 counter:u32 coop:u32 timeout:u64"
    ),
    "ginPutWith": (
        "i32",
        "dc:ptr context:u32 peer:i32 dstWin:ptr dstOff:u64 srcWin:ptr srcOff:u64 bytes:u64 "
        "kind:u32 window:ptr where:u64 value:u64 counter:u32 coop:u32 options:ptr"
    ),
    "ginGetWith": (
        "i32",
        "dc:ptr context:u32 peer:i32 srcWin:ptr srcOff:u64 dstWin:ptr dstOff:u64 bytes:u64 "
        "coop:u32 options:ptr"
    ),
    "ginSignalWith": (
        "i32",
        "dc:ptr context:u32 peer:i32 kind:u32 window:ptr where:u64 value:u64 coop:u32 "
        "options:ptr"
    ),
    "ginWaitSignalWith": (
        "i32",
        "dc:ptr context:u32 window:ptr where:u64 least:u64 coop:u32 options:ptr"
    ),
    "ginPutValue": (
        "i32",
        "dc:ptr context:u32 peer:i32 dstWin:ptr dstOff:u64 data:u64 bytes:u32 kind:u32 "
        "window:ptr where:u64 value:u64 coop:u32 timeout:u64"
    ),
    "ginGet": (
        "i32",
        "dc:ptr context:u32 peer:i32 srcWin:ptr srcOff:u64 dstWin:ptr dstOff:u64 bytes:u64 "
        "coop:u32 timeout:u64"
    ),
    "ginSignal": (
        "i32",
        "dc:ptr context:u32 peer:i32 kind:u32 window:ptr where:u64 value:u64 coop:u32 "
        "timeout:u64"
    ),
    "ginAtomicFetchAdd64": (
        "i32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u64 old:ptr coop:u32 timeout:u64"
    ),
    "ginFetchAdd64": (
        "u64",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u64 coop:u32 timeout:u64 failed:ptr"
    ),
    "ginAtomicCompareSwap64": (
        "i32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 compare:u64 value:u64 old:ptr coop:u32 "
        "timeout:u64"
    ),
    "ginCompareSwap64": (
        "u64",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 compare:u64 value:u64 coop:u32 "
        "timeout:u64 failed:ptr"
    ),
    "ginAtomicSwap64": (
        "i32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u64 old:ptr coop:u32 timeout:u64"
    ),
    "ginSwap64": (
        "u64",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u64 coop:u32 timeout:u64 failed:ptr"
    ),
    "ginAtomicFetchAdd32": (
        "i32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u32 old:ptr coop:u32 timeout:u64"
    ),
    "ginFetchAdd32": (
        "u32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u32 coop:u32 timeout:u64 failed:ptr"
    ),
    "ginAtomicCompareSwap32": (
        "i32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 compare:u32 value:u32 old:ptr coop:u32 "
        "timeout:u64"
    ),
    "ginCompareSwap32": (
        "u32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 compare:u32 value:u32 coop:u32 "
        "timeout:u64 failed:ptr"
    ),
    "ginAtomicSwap32": (
        "i32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u32 old:ptr coop:u32 timeout:u64"
    ),
    "ginSwap32": (
        "u32",
        "dc:ptr context:u32 peer:i32 win:ptr off:u64 value:u32 coop:u32 timeout:u64 failed:ptr"
    ),
    "ginFlush": (
        "i32",
        "dc:ptr context:u32 coop:u32 timeout:u64"
    ),
    "ginFlushAsync": (
        "none",
        "dc:ptr context:u32 peer:i32 coop:u32 request:ptr"
    ),
    "ginWait": (
        "i32",
        "dc:ptr context:u32 request:ptr coop:u32 timeout:u64"
    ),
    "ginFlushTicket": (
        "u64",
        "dc:ptr context:u32 peer:i32 coop:u32"
    ),
    "ginWaitTicket": (
        "i32",
        "dc:ptr context:u32 peer:i32 ticket:u64 coop:u32 timeout:u64"
    ),
    "ginReadSignal": (
        "u64",
        "dc:ptr context:u32 window:ptr where:u64 coop:u32"
    ),
    "ginResetSignal": (
        "none",
        "dc:ptr context:u32 window:ptr where:u64 coop:u32"
    ),
    "ginWaitSignal": (
        "i32",
        "dc:ptr context:u32 window:ptr where:u64 least:u64 coop:u32 timeout:u64"
    ),
    "ginReadValue": (
        "u64",
        "dc:ptr context:u32 win:ptr off:u64 bytes:u32 coop:u32"
    ),
    "ginWaitValue": (
        "i32",
        "dc:ptr context:u32 win:ptr off:u64 bytes:u32 least:u64 coop:u32 timeout:u64"
    ),
    "ginSignalShadow": (
        "ptr",
        "dc:ptr context:u32 id:u32"
    ),
    "ginIncreaseSignalShadow": (
        "none",
        "dc:ptr context:u32 id:u32 delta:u64 coop:u32"
    ),
    "ginWaitSignalMeetShadow": (
        "i32",
        "dc:ptr context:u32 id:u32 coop:u32 timeout:u64"
    ),
    "ginWaitSignalFollowShadow": (
        "i32",
        "dc:ptr context:u32 id:u32 leastDelta:u64 before:ptr delta:ptr coop:u32 timeout:u64"
    ),
    "ginReadCounter": (
        "u64",
        "dc:ptr context:u32 id:u32 coop:u32"
    ),
    "ginResetCounter": (
        "none",
        "dc:ptr context:u32 id:u32 coop:u32"
    ),
    "ginWaitCounter": (
        "i32",
        "dc:ptr context:u32 id:u32 least:u64 coop:u32 timeout:u64"
    ),
    "ginBarrierArrive": (
        "i32",
        "dc:ptr nRanks:i32 rank:i32 stride:i32 index:u32 coop:u32 timeout:u64"
    ),
    "ginBarrierWait": (
        "i32",
        "dc:ptr nRanks:i32 rank:i32 stride:i32 index:u32 coop:u32 timeout:u64"
    ),
    "ginBarrierSync": (
        "i32",
        "dc:ptr nRanks:i32 rank:i32 stride:i32 index:u32 coop:u32 timeout:u64"
    ),
    "ginPacketsSend": (
        "i32",
        "dc:ptr context:u32 win:ptr off:u64 most:u32 signals:u32 peer:i32 src:ptr bytes:u32 "
        "coop:u32 timeout:u64"
    ),
    "ginPacketsReceive": (
        "i32",
        "dc:ptr context:u32 win:ptr off:u64 most:u32 signals:u32 peer:i32 dst:ptr bytes:u32 "
        "coop:u32 timeout:u64"
    ),
    "ginPointer": (
        "ptr",
        "window:ptr offset:u64 peer:i32"
    ),
}
