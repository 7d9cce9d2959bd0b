#include "operator/rendezvous/certificates.h"

#include <fmt/format.h>
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

constexpr long kClockSkewSeconds = 3600;
constexpr unsigned kFingerprintBytes = 8;

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
Certificate blank(const std::string& common_name, EVP_PKEY* key, std::chrono::seconds valid) {
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
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), static_cast<long>(valid.count())) == nullptr ||
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return nullptr;
  }
  return certificate;
}

struct ReadPair {
  Certificate certificate;
  Key key;
};

Result<ReadPair> read_pair(const KeyPair& pair) {
  const Bio certificate_text(
      BIO_new_mem_buf(pair.certificate_pem.data(), static_cast<int>(pair.certificate_pem.size())));
  const Bio key_text(BIO_new_mem_buf(pair.private_key_pem.data(), static_cast<int>(pair.private_key_pem.size())));
  ReadPair read{Certificate(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr)),
                Key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr))};
  if (!read.certificate || !read.key || X509_check_private_key(read.certificate.get(), read.key.get()) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kCorrupt, "the coordinator's authority is not a certificate with its private key");
  }
  return read;
}

}  // namespace

Result<KeyPair> make_authority(std::chrono::seconds valid) {
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("making the authority's key");
  const Certificate certificate = blank("lockstep-coordinator-ca", key.get(), valid);
  if (!certificate || X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) != 1 ||
      !add_extension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) {
    return openssl_error("making the authority's certificate");
  }
  return to_pem(certificate.get(), key.get());
}

Status check_key_pair(const KeyPair& pair) {
  const auto issuer = read_pair(pair);
  return issuer ? Status() : issuer.error();
}

Result<WallTime> valid_until(const std::string& pem) {
  const Bio text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Certificate certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  std::tm end{};
  if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kCorrupt, "not a certificate");
  }
  return WallTime(std::chrono::seconds(timegm(&end)));
}

std::vector<std::string> fingerprints(const std::string& pem) {
  std::vector<std::string> found;
  const Bio text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (const Certificate certificate{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (X509_digest(certificate.get(), EVP_sha256(), bytes, &length) != 1 || length < kFingerprintBytes) break;
    std::string name;
    for (unsigned i = 0; i < kFingerprintBytes; ++i) name += fmt::format("{:02x}", bytes[i]);
    found.push_back(std::move(name));
  }
  ERR_clear_error();
  return found;
}

Result<KeyPair> issue_serving_certificate(const KeyPair& authority) {
  LOCKSTEP_TRY(const auto read, read_pair(authority));
  const auto& [issuer, issuer_key] = read;
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("making the coordinator's key");
  const Certificate certificate = blank(kCoordinatorServerName, key.get(), kAuthorityValid);
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
