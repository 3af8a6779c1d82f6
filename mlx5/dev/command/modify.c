/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/engine/qp.h"

enum { ANY_STATE = 0xff, SPORT_MIN = 0xc000, MTU_4096 = 5 };

static const uint32_t headFields[] = {QP_IN_QPN, QP_IN_OPT_PARAM_MASK};
static const uint32_t contextFields[] = {
	QPC_ST,		 QPC_PM_STATE,	     QPC_PD,	       QPC_MTU,
	QPC_LOG_MSG_MAX, QPC_COUNTER_SET_ID, QPC_REMOTE_QPN,   QPC_LOG_ACK_REQ_FREQ,
	QPC_LOG_SRA_MAX, QPC_RETRY_COUNT,    QPC_RNR_RETRY,    QPC_NEXT_SEND_PSN,
	QPC_LOG_RRA_MAX, QPC_ATOMIC_MODE,    QPC_RRE,	       QPC_RWE,
	QPC_RAE,	 QPC_MIN_RNR_NAK,    QPC_NEXT_RCV_PSN, QPC_USER_INDEX};
static const uint32_t pathFields[] = {ADS_PKEY_INDEX,
				      ADS_GRH,
				      ADS_MLID,
				      ADS_RLID,
				      ADS_ACK_TIMEOUT,
				      ADS_SRC_ADDR_INDEX,
				      ADS_STAT_RATE,
				      ADS_HOP_LIMIT,
				      ADS_TCLASS,
				      ADS_FLOW_LABEL,
				      FIELD(ADS_RGID, 64),
				      FIELD(ADS_RGID + 64, 64),
				      ADS_DSCP,
				      ADS_UDP_SPORT,
				      ADS_ETH_PRIO,
				      ADS_SL,
				      ADS_VHCA_PORT_NUM,
				      ADS_RMAC_47_32,
				      ADS_RMAC_31_0};

#define PATH(field) (FIELD(QPC_PRIMARY_PATH, 0) + (field))

/* The fields that each transition sets. An RGID is two fields. */
static const uint32_t initFields[] = {
	QPC_PM_STATE,		QPC_RRE, QPC_RWE, QPC_RAE, QPC_ATOMIC_MODE, PATH(ADS_PKEY_INDEX),
	PATH(ADS_VHCA_PORT_NUM)};
static const uint32_t rtrFields[] = {QPC_MTU,
				     QPC_LOG_MSG_MAX,
				     QPC_REMOTE_QPN,
				     QPC_NEXT_RCV_PSN,
				     QPC_LOG_RRA_MAX,
				     QPC_MIN_RNR_NAK,
				     PATH(ADS_GRH),
				     PATH(ADS_MLID),
				     PATH(ADS_RLID),
				     PATH(ADS_SRC_ADDR_INDEX),
				     PATH(ADS_STAT_RATE),
				     PATH(ADS_HOP_LIMIT),
				     PATH(ADS_TCLASS),
				     PATH(ADS_FLOW_LABEL),
				     PATH(FIELD(ADS_RGID, 64)),
				     PATH(FIELD(ADS_RGID + 64, 64)),
				     PATH(ADS_DSCP),
				     PATH(ADS_UDP_SPORT),
				     PATH(ADS_ETH_PRIO),
				     PATH(ADS_SL),
				     PATH(ADS_RMAC_47_32),
				     PATH(ADS_RMAC_31_0)};
static const uint32_t rtsFields[] = {QPC_LOG_ACK_REQ_FREQ, QPC_LOG_SRA_MAX,
				     QPC_RETRY_COUNT,	   QPC_RNR_RETRY,
				     QPC_NEXT_SEND_PSN,	   PATH(ADS_ACK_TIMEOUT)};

static const uint32_t RIGHTS_MASK = OPT_PARAM_RRE | OPT_PARAM_RAE | OPT_PARAM_RWE;

/* The two states of a transition, and the bits that opt_param_mask may have. */
static const struct transition {
	uint16_t opcode;
	uint8_t from, to;
	uint32_t mask;
} transitions[] = {
	{COMMAND_RST2INIT_QP, QP_RESET, QP_INIT, RIGHTS_MASK | OPT_PARAM_PKEY_INDEX},
	{COMMAND_INIT2INIT_QP, QP_INIT, QP_INIT, RIGHTS_MASK | OPT_PARAM_PKEY_INDEX},
	{COMMAND_INIT2RTR_QP, QP_INIT, QP_RTR,
	 RIGHTS_MASK | OPT_PARAM_PKEY_INDEX | OPT_PARAM_RNR_TIMEOUT},
	{COMMAND_RTR2RTS_QP, QP_RTR, QP_RTS,
	 RIGHTS_MASK | OPT_PARAM_RNR_TIMEOUT | OPT_PARAM_PM_STATE},
	{COMMAND_RTS2RTS_QP, QP_RTS, QP_RTS,
	 RIGHTS_MASK | OPT_PARAM_RNR_TIMEOUT | OPT_PARAM_PM_STATE},
	{COMMAND_2ERR_QP, ANY_STATE, QP_ERROR, 0},
	{COMMAND_2RST_QP, ANY_STATE, QP_RESET, 0},
};

static uint32_t get(const struct command *command, uint32_t field)
{
	return (uint32_t)fieldGet(command->in, fieldAt(QP_IN_QPC, field));
}

static uint32_t path(const struct command *command, uint32_t field)
{
	return get(command, fieldAt(QPC_PRIMARY_PATH, field));
}

static bool wrong(struct command *command, const char *reason)
{
	return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE, reason);
}

static void setRights(const struct command *command, struct qp *qp)
{
	qp->path.readable = get(command, QPC_RRE);
	qp->path.writable = get(command, QPC_RWE);
	qp->path.atomic = get(command, QPC_RAE);
	qp->path.atomicMode = (uint8_t)get(command, QPC_ATOMIC_MODE);
}

/* Later than at INIT, rights change where opt_param_mask says so. */
static void changeRights(const struct command *command, struct qp *qp)
{
	uint32_t mask = (uint32_t)fieldGet(command->in, QP_IN_OPT_PARAM_MASK);

	if (mask & OPT_PARAM_RRE)
		qp->path.readable = get(command, QPC_RRE);
	if (mask & OPT_PARAM_RWE)
		qp->path.writable = get(command, QPC_RWE);
	if (mask & OPT_PARAM_RAE) {
		qp->path.atomic = get(command, QPC_RAE);
		qp->path.atomicMode = (uint8_t)get(command, QPC_ATOMIC_MODE);
	}
}

static bool toInit(struct command *command, struct qp *qp)
{
	if (path(command, ADS_VHCA_PORT_NUM) != 1)
		return wrong(command, "vhca_port_num is not 1");
	if (path(command, ADS_PKEY_INDEX))
		return wrong(command, "there is one pkey");
	if (get(command, QPC_RAE) && !get(command, QPC_ATOMIC_MODE))
		return wrong(command, "rae without atomic_mode");
	setRights(command, qp);
	return true;
}

static bool isMac(const struct command *command, int device)
{
	uint8_t mac[6];

	fabricMac(device, mac);
	return path(command, ADS_RMAC_47_32) == (uint32_t)(mac[0] << 8 | mac[1]) &&
	       path(command, ADS_RMAC_31_0) ==
		       ((uint32_t)mac[2] << 24 | (uint32_t)(mac[3] << 16 | mac[4] << 8 | mac[5]));
}

static bool isV2(const struct command *command)
{
	return path(command, ADS_SRC_ADDR_INDEX) % 2;
}

/* No device is at an unknown address, or at an address with another device's MAC. */
static bool findByRoce(struct command *command, int *device)
{
	uint8_t gid[16];

	if (!fabricGid(command->device->index, path(command, ADS_SRC_ADDR_INDEX), gid))
		return wrong(command, "src_addr_index is of an empty entry");
	if (!path(command, ADS_HOP_LIMIT))
		return wrong(command, "hop_limit is 0: no packet would arrive");
	if (isV2(command) && path(command, ADS_UDP_SPORT) < SPORT_MIN)
		return wrong(command, "udp_sport is below r_roce_min_src_udp_port");
	memcpy(gid, command->in + (QP_IN_QPC + QPC_PRIMARY_PATH + ADS_RGID) / 8, 16);
	*device = fabricByGid(gid);
	if (*device >= 0 && !isMac(command, *device))
		*device = -1;
	return true;
}

static bool findByLid(struct command *command, int *device)
{
	if (!path(command, ADS_RLID))
		return wrong(command, "rlid is 0");
	*device = fabricByLid((uint16_t)path(command, ADS_RLID));
	return true;
}

/* `log` is a field: log2 of READs and atomics at a time. */
static bool hasReads(const struct command *command, uint32_t log)
{
	return 1u << get(command, log) <= options.reads[command->device->index];
}

static bool toRtr(struct command *command, struct qp *qp)
{
	uint32_t mtu = get(command, QPC_MTU);
	int device = -1;

	if (!mtu || mtu > MTU_4096)
		return wrong(command, "mtu is not 1 to 5");
	if (mtu > optionsMtu(command->device->index))
		return wrong(command, "mtu is over the port's");
	if (!hasReads(command, QPC_LOG_RRA_MAX))
		return wrong(command, "log_rra_max is over the device's");
	if (get(command, QPC_LOG_MSG_MAX) > 30 || !get(command, QPC_LOG_MSG_MAX))
		return wrong(command, "log_msg_max is not 1 to 30");
	if (!(options.roce ? findByRoce(command, &device) : findByLid(command, &device)))
		return false;
	changeRights(command, qp);
	qp->path.mtu = (uint8_t)mtu;
	qp->path.messageLog = (uint8_t)get(command, QPC_LOG_MSG_MAX);
	qp->path.device = device;
	qp->path.qpn = get(command, QPC_REMOTE_QPN);
	qp->path.receivePsn = get(command, QPC_NEXT_RCV_PSN);
	qp->path.readsIn = 1u << get(command, QPC_LOG_RRA_MAX);
	qp->path.minRnrTimer = (uint8_t)get(command, QPC_MIN_RNR_NAK);
	return true;
}

static bool toRts(struct command *command, struct qp *qp)
{
	if (!hasReads(command, QPC_LOG_SRA_MAX))
		return wrong(command, "log_sra_max is over the device's");
	changeRights(command, qp);
	qp->path.sendPsn = get(command, QPC_NEXT_SEND_PSN);
	qp->path.readsOut = 1u << get(command, QPC_LOG_SRA_MAX);
	qp->path.retries = (uint8_t)get(command, QPC_RETRY_COUNT);
	qp->path.rnrRetries = (uint8_t)get(command, QPC_RNR_RETRY);
	qp->path.ackTimeout = (uint8_t)path(command, ADS_ACK_TIMEOUT);
	return true;
}

static void keep(const struct command *command, struct qp *qp, const uint32_t *fields, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*fields); i++)
		fieldSet(qp->context, fields[i],
			 fieldGet(command->in, fieldAt(QP_IN_QPC, fields[i])));
}

/* For QUERY_QP. */
static void keepFields(const struct command *command, struct qp *qp, uint32_t opcode)
{
	if (opcode == COMMAND_RST2INIT_QP)
		keep(command, qp, initFields, sizeof(initFields));
	if (opcode == COMMAND_INIT2RTR_QP)
		keep(command, qp, rtrFields, sizeof(rtrFields));
	if (opcode == COMMAND_RTR2RTS_QP)
		keep(command, qp, rtsFields, sizeof(rtsFields));
}

static bool apply(struct command *command, struct qp *qp, const struct transition *transition)
{
	switch (transition->opcode) {
	case COMMAND_RST2INIT_QP:
		return toInit(command, qp);
	case COMMAND_INIT2RTR_QP:
		return toRtr(command, qp);
	case COMMAND_RTR2RTS_QP:
		return toRts(command, qp);
	case COMMAND_2ERR_QP:
		qpError(qp);
		return true;
	case COMMAND_2RST_QP:
		qpReset(qp);
		return true;
	default:
		changeRights(command, qp);
		return true;
	}
}

static const struct transition *find(uint32_t opcode)
{
	const struct transition *transition = transitions;

	while (transition->opcode != opcode)
		transition++;
	return transition;
}

bool commandModifyQp(struct command *command)
{
	const struct known known[] = {
		{0, headFields, sizeof(headFields) / 4},
		{QP_IN_QPC, contextFields, sizeof(contextFields) / 4},
		{QP_IN_QPC + QPC_PRIMARY_PATH, pathFields, sizeof(pathFields) / 4},
	};
	const struct transition *transition = find((uint32_t)fieldGet(command->in, IN_OPCODE));
	bool isShort = transition->from == ANY_STATE;
	struct qp *qp =
		objectFind(command->device, KIND_QP, (uint32_t)fieldGet(command->in, QP_IN_QPN));

	if (!commandOnly(command, known, isShort ? 1 : 3))
		return false;
	if (!qp || qp->object.destroyed)
		return commandRefuse(command, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT,
				     "there is no such qpn");
	if (!isShort && qp->state != transition->from)
		return commandRefuse(command, STATUS_BAD_QP_STATE, REFUSED_STATE,
				     "the QP is in another state");
	if (!isShort && fieldGet(command->in, QP_IN_OPT_PARAM_MASK) & ~transition->mask)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_PARAM_MASK,
				     "opt_param_mask has what this transition does not");
	if (!apply(command, qp, transition))
		return false;
	keepFields(command, qp, transition->opcode);
	qp->state = transition->to;
	return true;
}
