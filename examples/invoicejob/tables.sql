-- The tables of the invoice job, in a schema of their own. Plain SQL, safe to run again.
--
-- Amounts are numeric: exact decimals. The primary key of invoices makes a second invoice for an order impossible, but it
-- is not what keeps a stale holder out: that is the fence, which refuses it before it writes anything.
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE IF NOT EXISTS {schema}.orders (
    order_id bigint NOT NULL,
    customer text NOT NULL,
    order_date date NOT NULL,
    CONSTRAINT orders_pkey PRIMARY KEY (order_id)
);

CREATE TABLE IF NOT EXISTS {schema}.order_lines (
    order_id bigint NOT NULL,
    product_id bigint NOT NULL,
    unit_price numeric NOT NULL,
    quantity integer NOT NULL,
    discount numeric NOT NULL,
    CONSTRAINT order_lines_pkey PRIMARY KEY (order_id, product_id),
    CONSTRAINT order_lines_order_fkey FOREIGN KEY (order_id) REFERENCES {schema}.orders,
    CONSTRAINT order_lines_discount CHECK (discount BETWEEN 0 AND 1)
);

CREATE TABLE IF NOT EXISTS {schema}.invoices (
    order_id bigint NOT NULL,
    gross numeric NOT NULL,
    total numeric NOT NULL,
    token bigint NOT NULL,
    written_by text NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT invoices_pkey PRIMARY KEY (order_id),
    CONSTRAINT invoices_order_fkey FOREIGN KEY (order_id) REFERENCES {schema}.orders
);

COMMENT ON COLUMN {schema}.invoices.token IS 'Fencing token of the holder that wrote it.';
