// The numbers that the reader and the writer of zip files share. All fields are little-endian and unaligned.
#pragma once

#include <cstdint>

namespace flashtile::files::zip {

inline constexpr std::uint32_t kLocalHeader = 0x04034b50;  // "PK" 3 4
inline constexpr std::uint32_t kDirectoryRecord = 0x02014b50;
inline constexpr std::uint32_t kEnd = 0x06054b50;
inline constexpr std::uint32_t kEnd64 = 0x06064b50;
inline constexpr std::uint32_t kLocator64 = 0x07064b50;

inline constexpr std::uint64_t kLocalHeaderSize = 30;
inline constexpr std::uint64_t kDirectoryRecordSize = 46;
inline constexpr std::uint64_t kEndSize = 22;
inline constexpr std::uint64_t kEnd64Size = 56;
inline constexpr std::uint64_t kLocator64Size = 20;

inline constexpr std::uint16_t kExtra64 = 0x0001;  // the extra field that holds what did not fit into 32 bits

/// A field with all bits set says: look in the zip64 structure.
inline constexpr std::uint32_t kElsewhere32 = 0xffffffff;
inline constexpr std::uint16_t kElsewhere16 = 0xffff;

inline constexpr std::uint16_t kStored = 0, kDeflated = 8;

inline constexpr std::uint16_t kEncrypted = 1u << 0;   // general purpose flags
inline constexpr std::uint16_t kSizesAfterData = 1u << 3;
inline constexpr std::uint16_t kPatched = 1u << 5;
inline constexpr std::uint16_t kStrongEncryption = 1u << 6;
inline constexpr std::uint16_t kUtf8Name = 1u << 11;
inline constexpr std::uint16_t kMaskedDirectory = 1u << 13;

}  // namespace flashtile::files::zip
