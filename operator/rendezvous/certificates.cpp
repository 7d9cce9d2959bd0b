// The coordinator's certificate authority and serving certificates (coordinator.h), with OpenSSL.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "operator/rendezvous/coordinator.h"

namespace lockstep::rendezvous {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;

constexpr long kValidSeconds = 10L * 365 * 24 * 3600;  // an operator may run for years without a restart
constexpr long kClockSkewSeconds = 3600;

// The newest entry of OpenSSL's queue of errors, as a value.
Error openssl_error(const std::string& doing) {
  const unsigned long code = ERR_peek_last_error();
  char text[256] = "no reason given";
  if (code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return fail(ErrorCode::kInternal, doing + ": " + text);
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return length > 0 ? std::string(data, static_cast<std::size_t>(length)) : std::string();
}

Result<KeyPair> to_pem(X509* certificate, EVP_PKEY* key) {
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  const Bio key_text(BIO_new(BIO_s_mem()));
  if (!certificate_text || !key_text || PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error("writing a certificate");
  }
  return KeyPair{text_of(certificate_text.get()), text_of(key_text.get())};
}

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A certificate with everything but its extensions and signature.
Certificate blank(const std::string& common_name, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  unsigned char serial[16];
  if (!certificate || RAND_bytes(serial, sizeof serial) != 1) return nullptr;
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x01);  // positive, and of the same length always
  const std::unique_ptr<BIGNUM, Deleter<BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  X509_NAME* name = X509_get_subject_name(certificate.get());
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  if (!number || BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) == nullptr ||
      X509_set_version(certificate.get(), 2) != 1 ||
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kClockSkewSeconds) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kValidSeconds) == nullptr ||
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return nullptr;
  }
  return certificate;
}

}  // namespace

Result<KeyPair> make_authority() {
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("making the authority's key");
  const Certificate certificate = blank("lockstep-coordinator-ca", key.get());
  if (!certificate || X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) != 1 ||
      !add_extension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) {
    return openssl_error("making the authority's certificate");
  }
  return to_pem(certificate.get(), key.get());
}

Result<KeyPair> issue_serving_certificate(const KeyPair& authority) {
  const Bio certificate_text(
      BIO_new_mem_buf(authority.certificate_pem.data(), static_cast<int>(authority.certificate_pem.size())));
  const Bio key_text(
      BIO_new_mem_buf(authority.private_key_pem.data(), static_cast<int>(authority.private_key_pem.size())));
  const Certificate issuer(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
  const Key issuer_key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (!issuer || !issuer_key || X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kCorrupt,
                "the coordinator's authority is not a certificate with its private key; "
                "delete its Secret to have a new one made");
  }
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("making the coordinator's key");
  const Certificate certificate = blank(kCoordinatorServerName, key.get());
  const std::string names = std::string("DNS:") + kCoordinatorServerName;
  if (!certificate || X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get())) != 1 ||
      !add_extension(certificate.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(certificate.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(certificate.get(), issuer.get(), NID_ext_key_usage, "serverAuth") ||
      !add_extension(certificate.get(), issuer.get(), NID_subject_alt_name, names.c_str()) ||
      !add_extension(certificate.get(), issuer.get(), NID_authority_key_identifier, "keyid") ||
      X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) == 0) {
    return openssl_error("making the coordinator's certificate");
  }
  return to_pem(certificate.get(), key.get());
}

}  // namespace lockstep::rendezvous
