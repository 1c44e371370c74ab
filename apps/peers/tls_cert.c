#include "apps/peers/tls_cert.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "apps/common/options.h"

enum { HOUR = 3600 };

/* Reads what was written to a BIO, as text. */
static void take_text(BIO *bio, char text[PEER_ADDRESS_MAX])
{
	int len = BIO_read(bio, text, PEER_ADDRESS_MAX - 1);

	text[len > 0 ? len : 0] = 0;
	BIO_free(bio);
}

static X509 *make_cert(EVP_PKEY *pair)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;

	if (!name || !X509_set_version(cert, 2) ||
	    !ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) ||
	    !X509_gmtime_adj(X509_getm_notBefore(cert), -HOUR) ||
	    !X509_gmtime_adj(X509_getm_notAfter(cert), 24 * HOUR) || !X509_set_pubkey(cert, pair) ||
	    !X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
					(const unsigned char *)PEER_TLS_NAME, -1, -1, 0) ||
	    !X509_set_issuer_name(cert, name) || !X509_sign(cert, pair, EVP_sha256()))
		app_die("no certificate can be made");
	return cert;
}

void peer_tls_make(char cert_text[PEER_ADDRESS_MAX], char key_text[PEER_ADDRESS_MAX])
{
	EVP_PKEY *pair = EVP_EC_gen("P-256");
	BIO *certs = BIO_new(BIO_s_mem()), *keys = BIO_new(BIO_s_mem());
	X509 *cert;

	if (!pair || !certs || !keys)
		app_die("no key can be made");
	cert = make_cert(pair);
	if (!PEM_write_bio_X509(certs, cert) ||
	    !PEM_write_bio_PrivateKey(keys, pair, NULL, NULL, 0, NULL, NULL))
		app_die("a certificate cannot be written");
	take_text(certs, cert_text);
	take_text(keys, key_text);
	X509_free(cert);
	EVP_PKEY_free(pair);
}
