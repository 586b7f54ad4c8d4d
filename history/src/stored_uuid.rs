//! Stored form of UUIDs.

/// Stored form of a UUID: 16 bytes.
pub(crate) mod uuid {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};
    use uuid::Uuid;

    pub(crate) fn encode<C, W: Write>(id: &Uuid, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(id.as_bytes())?.ok()
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Uuid, DecodeError> {
        Uuid::from_slice(d.bytes()?).map_err(|_| DecodeError::message("expected a run id of 16 bytes"))
    }
}

/// Stored form of an optional UUID: 16 bytes or null.
pub(crate) mod uuid_option {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};
    use uuid::Uuid;

    #[expect(clippy::ref_option, reason = "the derived code hands over a reference to the field")]
    pub(crate) fn encode<C, W: Write>(
        id: &Option<Uuid>,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match id {
            Some(id) => super::uuid::encode(id, e, ctx),
            None => e.null()?.ok(),
        }
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, ctx: &mut C) -> Result<Option<Uuid>, DecodeError> {
        if d.datatype()? == minicbor::data::Type::Null {
            return d.null().map(|()| None);
        }
        super::uuid::decode(d, ctx).map(Some)
    }
}
