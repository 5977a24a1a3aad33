// SPDX-License-Identifier: Apache-2.0
// The packet filter of a cell's network namespace: one table, one chain, always the same.
//
//   chain type filter hook prerouting, policy drop
//     ip daddr 127.0.0.0/8                     accept
//     ip6 daddr ::1                            accept
//     ip daddr 198.18.0.0/15 tcp               tproxy to 198.18.0.0:1, accept
//     limit rate 500/second                    log group 1
//     tcp                                      reject with tcp reset
//                                              reject with icmpx port-unreachable
//
// Every packet comes through here: all destinations are local, so each goes out on the loopback device and in again.
// In prerouting a refusal is an answer (reset, unreachable), as of a network; in output it would be EPERM.
// tproxy and not NAT: no connection is tracked, which makes the namespace cheaper to build, use and take down; and the
// accepted socket's own address is the one that was dialled.
#pragma once
#include "base/err.h"
#include <stdint.h>

#define NFT_LOG_GROUP 1
#define NFT_LOG_RATE 500 // packets a second that the supervisor is told of; it writes down fewer and counts the rest
#define NFT_SYNTHETIC 0xc6120000u // 198.18.0.0/15: what the resolver answers with
#define NFT_LISTEN_PORT 1 // the listener is at 198.18.0.0, which the resolver never gives: no port of 127/8 is taken

// netfilter: a NETLINK_NETFILTER socket; afterwards it also receives the log group. UNSUPPORTED: this kernel has no
// nf_tables, tproxy or NFLOG for us.
int nft_install(int netfilter, struct err *e) MUST_USE;
