/* tls_cert - a key and its certificate, made for one run. Layer: apps/peers. */
#ifndef APPS_PEERS_TLS_CERT_H
#define APPS_PEERS_TLS_CERT_H

#include "apps/peers/peer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_TLS_NAME "lend-peer" /* the name in the certificate */

/* Makes a pair of P-256 and a certificate that it signs itself, both as PEM text. */
void peer_tls_make(char cert[PEER_ADDRESS_MAX], char key[PEER_ADDRESS_MAX]);

#ifdef __cplusplus
}
#endif

#endif
