// SPDX-License-Identifier: Apache-2.0
// Rules are lists of small expressions that load into and compare registers, as `nft --debug=netlink` prints them.
#include "isolate/nft.h"

#include "base/mem.h"
#include "isolate/nl.h"
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#define TABLE "skep"
#define CHAIN "in"
#define LOG_BYTES 80 // of each packet: both headers and the ports

static void begin(struct nl *b, int type, uint16_t flags)
{
	struct nfgenmsg g = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
	nl_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &g, sizeof g);
}

static void batch(struct nl *b, uint16_t type)
{
	struct nfgenmsg g = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
	nl_begin(b, type, 0, &g, sizeof g);
}

// --- expressions ---

struct nest {
	uint32_t elem, data;
};

static struct nest expr(struct nl *b, const char *name)
{
	struct nest x = {.elem = nl_nest(b, NFTA_LIST_ELEM)};
	nl_put_str(b, NFTA_EXPR_NAME, name);
	x.data = nl_nest(b, NFTA_EXPR_DATA);
	return x;
}

static void expr_end(struct nl *b, struct nest x)
{
	nl_unnest(b, x.data);
	nl_unnest(b, x.elem);
}

static void value(struct nl *b, uint16_t attr, const void *p, size_t n)
{
	uint32_t at = nl_nest(b, attr);
	nl_put(b, NFTA_DATA_VALUE, p, n);
	nl_unnest(b, at);
}

static void is_equal(struct nl *b, const void *p, size_t n)
{
	struct nest x = expr(b, "cmp");
	nl_put_be32(b, NFTA_CMP_SREG, NFT_REG_1);
	nl_put_be32(b, NFTA_CMP_OP, NFT_CMP_EQ);
	value(b, NFTA_CMP_DATA, p, n);
	expr_end(b, x);
}

static void meta_is(struct nl *b, uint32_t key, uint8_t v)
{
	struct nest x = expr(b, "meta");
	nl_put_be32(b, NFTA_META_KEY, key);
	nl_put_be32(b, NFTA_META_DREG, NFT_REG_1);
	expr_end(b, x);
	is_equal(b, &v, 1);
}

static void load_network(struct nl *b, uint32_t offset, uint32_t len)
{
	struct nest x = expr(b, "payload");
	nl_put_be32(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nl_put_be32(b, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	nl_put_be32(b, NFTA_PAYLOAD_OFFSET, offset);
	nl_put_be32(b, NFTA_PAYLOAD_LEN, len);
	expr_end(b, x);
}

static void set_register(struct nl *b, uint32_t reg, const void *p, size_t n)
{
	struct nest x = expr(b, "immediate");
	nl_put_be32(b, NFTA_IMMEDIATE_DREG, reg);
	value(b, NFTA_IMMEDIATE_DATA, p, n);
	expr_end(b, x);
}

static void accept_it(struct nl *b)
{
	struct nest x = expr(b, "immediate");
	nl_put_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	uint32_t data = nl_nest(b, NFTA_IMMEDIATE_DATA), verdict = nl_nest(b, NFTA_DATA_VERDICT);
	nl_put_be32(b, NFTA_VERDICT_CODE, NF_ACCEPT);
	nl_unnest(b, verdict);
	nl_unnest(b, data);
	expr_end(b, x);
}

static void reject(struct nl *b, uint32_t type, uint8_t code)
{
	struct nest x = expr(b, "reject");
	nl_put_be32(b, NFTA_REJECT_TYPE, type);
	nl_put(b, NFTA_REJECT_ICMP_CODE, &code, 1);
	expr_end(b, x);
}

// Without a listener the packet goes on to the next rule.
static void to_listener(struct nl *b, uint8_t family, const void *address, size_t n, uint16_t at)
{
	uint16_t port = htons(at);
	set_register(b, NFT_REG_1, address, n);
	set_register(b, NFT_REG_2, &port, sizeof port);
	struct nest x = expr(b, "tproxy");
	nl_put_be32(b, NFTA_TPROXY_FAMILY, family);
	nl_put_be32(b, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
	nl_put_be32(b, NFTA_TPROXY_REG_PORT, NFT_REG_2);
	expr_end(b, x);
	accept_it(b);
}

static void is_synthetic(struct nl *b)
{
	static const uint8_t first[] = {198, 18}, last[] = {198, 19};
	load_network(b, 16, sizeof first);
	struct nest x = expr(b, "range");
	nl_put_be32(b, NFTA_RANGE_SREG, NFT_REG_1);
	nl_put_be32(b, NFTA_RANGE_OP, NFT_RANGE_EQ);
	value(b, NFTA_RANGE_FROM_DATA, first, sizeof first);
	value(b, NFTA_RANGE_TO_DATA, last, sizeof last);
	expr_end(b, x);
}

static void limit(struct nl *b)
{
	uint64_t rate = htobe64(NFT_LOG_RATE), second = htobe64(1);
	struct nest x = expr(b, "limit");
	nl_put(b, NFTA_LIMIT_RATE, &rate, sizeof rate);
	nl_put(b, NFTA_LIMIT_UNIT, &second, sizeof second);
	nl_put_be32(b, NFTA_LIMIT_BURST, NFT_LOG_RATE);
	expr_end(b, x);
}

static void log_packet(struct nl *b)
{
	uint16_t group = htons(NFT_LOG_GROUP), at_once = htons(1);
	struct nest x = expr(b, "log");
	nl_put(b, NFTA_LOG_GROUP, &group, sizeof group);
	nl_put_be32(b, NFTA_LOG_SNAPLEN, LOG_BYTES);
	nl_put(b, NFTA_LOG_QTHRESHOLD, &at_once, sizeof at_once);
	expr_end(b, x);
}

// --- rules ---

static void rule_loopback4(struct nl *b)
{
	static const uint8_t net = 127;
	meta_is(b, NFT_META_NFPROTO, NFPROTO_IPV4);
	load_network(b, 16, 1);
	is_equal(b, &net, 1);
	accept_it(b);
}

static void rule_loopback6(struct nl *b)
{
	meta_is(b, NFT_META_NFPROTO, NFPROTO_IPV6);
	load_network(b, 24, sizeof in6addr_loopback);
	is_equal(b, &in6addr_loopback, sizeof in6addr_loopback);
	accept_it(b);
}

static void rule_gate(struct nl *b)
{
	uint32_t at4 = htonl(NFT_SYNTHETIC);
	meta_is(b, NFT_META_NFPROTO, NFPROTO_IPV4);
	is_synthetic(b);
	meta_is(b, NFT_META_L4PROTO, IPPROTO_TCP);
	to_listener(b, NFPROTO_IPV4, &at4, sizeof at4, NFT_LISTEN_PORT);
}

static void rule_wide4(struct nl *b)
{
	uint32_t at4 = htonl(NFT_SYNTHETIC);
	meta_is(b, NFT_META_NFPROTO, NFPROTO_IPV4);
	meta_is(b, NFT_META_L4PROTO, IPPROTO_TCP);
	to_listener(b, NFPROTO_IPV4, &at4, sizeof at4, NFT_WIDE_PORT);
}

static void rule_wide6(struct nl *b)
{
	static const struct in6_addr at6 = NFT_WIDE6;
	meta_is(b, NFT_META_NFPROTO, NFPROTO_IPV6);
	meta_is(b, NFT_META_L4PROTO, IPPROTO_TCP);
	to_listener(b, NFPROTO_IPV6, &at6, sizeof at6, NFT_WIDE_PORT);
}

static void rule_log(struct nl *b)
{
	limit(b);
	log_packet(b);
}

static void rule_reset(struct nl *b)
{
	meta_is(b, NFT_META_L4PROTO, IPPROTO_TCP);
	reject(b, NFT_REJECT_TCP_RST, 0);
}

static void rule_unreachable(struct nl *b)
{
	reject(b, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
}

static void add_rule(struct nl *b, void (*fill)(struct nl *b))
{
	begin(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	nl_put_str(b, NFTA_RULE_TABLE, TABLE);
	nl_put_str(b, NFTA_RULE_CHAIN, CHAIN);
	uint32_t list = nl_nest(b, NFTA_RULE_EXPRESSIONS);
	fill(b);
	nl_unnest(b, list);
}

static void add_chain(struct nl *b)
{
	begin(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	nl_put_str(b, NFTA_CHAIN_TABLE, TABLE);
	nl_put_str(b, NFTA_CHAIN_NAME, CHAIN);
	uint32_t hook = nl_nest(b, NFTA_CHAIN_HOOK);
	nl_put_be32(b, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	nl_put_be32(b, NFTA_HOOK_PRIORITY, 0);
	nl_unnest(b, hook);
	nl_put_str(b, NFTA_CHAIN_TYPE, "filter");
	nl_put_be32(b, NFTA_CHAIN_POLICY, NF_DROP);
}

static void build(struct nl *b, bool six)
{
	void (*const rules[])(struct nl *) = {
		rule_loopback4, rule_loopback6, rule_gate, rule_wide4, rule_wide6, rule_log, rule_reset, rule_unreachable,
	};
	batch(b, NFNL_MSG_BATCH_BEGIN);
	begin(b, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	nl_put_str(b, NFTA_TABLE_NAME, TABLE);
	nl_put_be32(b, NFTA_TABLE_FLAGS, 0);
	add_chain(b);
	for (size_t i = 0; i < countof(rules); i++)
		if (six || rules[i] != rule_wide6)
			add_rule(b, rules[i]);
	batch(b, NFNL_MSG_BATCH_END);
}

static int explain(int sys, const char *what, struct err *e)
{
	switch (sys) {
	case EPERM:
	case EACCES:
		return err_set(e, ERR_UNSUPPORTED, "this host does not let a user namespace use %s", what);
	case ENOENT: // an expression that is not there
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
	case EAFNOSUPPORT:
	case EINVAL: // a subsystem that is not there
		return err_set(e, ERR_UNSUPPORTED, "this kernel has no %s, or its module is not loaded", what);
	default:
		errno = sys;
		return err_sys(e, "set up %s", what);
	}
}

static int listen_to_log(int fd, struct err *e)
{
	struct nl b = {0};
	uint32_t at;
	struct nfgenmsg g = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFT_LOG_GROUP)};
	struct nfulnl_msg_config_cmd bind = {.command = NFULNL_CFG_CMD_BIND};
	struct nfulnl_msg_config_mode mode = {.copy_range = htonl(LOG_BYTES), .copy_mode = NFULNL_COPY_PACKET};
	nl_begin(&b, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, 0, &g, sizeof g);
	nl_put(&b, NFULA_CFG_CMD, &bind, sizeof bind);
	nl_put(&b, NFULA_CFG_MODE, &mode, sizeof mode);
	int rc = nl_talk(fd, &b, &at, e);
	return rc > 0 ? explain(rc, "the packet log (nfnetlink_log)", e) : rc;
}

int nft_install(int fd, struct err *e)
{
	struct nl b = {0};
	uint32_t at = 0;
	if (listen_to_log(fd, e)) // before the rules: a logger must be there when they name it
		return -1;
	build(&b, true);
	int rc = nl_talk(fd, &b, &at, e);
	if (rc == EAFNOSUPPORT || rc == EOPNOTSUPP || rc == ENOENT) { // perhaps only IPv6 is missing: then its addresses stay refused
		b = (struct nl){0};
		build(&b, false);
		rc = nl_talk(fd, &b, &at, e);
	}
	return rc > 0 ? explain(rc, "packet filter (nf_tables with tproxy, reject and log)", e) : rc;
}
