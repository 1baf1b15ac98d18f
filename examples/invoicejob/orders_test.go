package main

import (
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

const (
	goodOrders = "orderID,customerID,orderDate\n1,ANNA,2026-01-01\n2,BERT,2026-01-02\n"
	goodLines  = "orderID,productID,unitPrice,quantity,discount\n1,7,14.00,12,0\n2,7,9.80,10,0.15\n2,8,1,1,1\n"
)

func readText(orders, lines string) ([]order, error) {
	return readOrders("o.csv", strings.NewReader(orders), "l.csv", strings.NewReader(lines))
}

func TestOrders_AreReadByColumnName(t *testing.T) {
	want := []order{
		{ID: 1, Customer: "ANNA", Date: "2026-01-01", row: 2, Lines: []line{{7, "14.00", 12, "0"}}},
		{ID: 2, Customer: "BERT", Date: "2026-01-02", row: 3, Lines: []line{{7, "9.80", 10, "0.15"}, {8, "1", 1, "1"}}},
	}
	const bom = "\ufeff"
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	for name, files := range map[string][2]string{
		"plain":              {goodOrders, goodLines},
		"byte order mark":    {bom + goodOrders, bom + goodLines},
		"CRLF":               {crlf(goodOrders), crlf(goodLines)},
		"both":               {bom + crlf(goodOrders), bom + crlf(goodLines)},
		"no last line break": {strings.TrimSpace(goodOrders), strings.TrimSpace(goodLines)},
		"blanks and quotes": {"orderID, customerID ,orderDate\n1,\"ANNA\", 2026-01-01\n2,BERT,2026-01-02 \n",
			strings.ReplaceAll(goodLines, "14.00", `" 14.00"`)},
		"time of day": {strings.ReplaceAll(goodOrders, "-01-01", "-01-01 23:59:59.000"), goodLines},
		"other columns in another order": {
			"note,orderDate,customerID,orderID\nx,2026-01-01,ANNA,1\n\"a,\nb\",2026-01-02,BERT,2\n",
			"discount,quantity,unitPrice,productID,orderID,x\n0,12,14.00,7,1,\n0.15,10,9.80,7,2,\n1,1,1,8,2,\n",
		},
	} {
		got, err := readText(files[0], files[1])
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

// TestOrders_MalformedRowsAreRefused: with file, line and reason.
func TestOrders_MalformedRowsAreRefused(t *testing.T) {
	orders := func(rows string) [2]string { return [2]string{"orderID,customerID,orderDate\n" + rows, goodLines} }
	lines := func(rows string) [2]string {
		return [2]string{goodOrders, "orderID,productID,unitPrice,quantity,discount\n" + rows}
	}
	for want, files := range map[string][2]string{
		`o.csv:1: the file is empty: want a header with orderID, customerID, orderDate`:                    {"", goodLines},
		`l.csv:1: the file is empty: want a header with orderID, productID, unitPrice, quantity, discount`: {goodOrders, ""},
		`o.csv:1: no order after the header`:                                                               orders(""),
		`o.csv:1: column customerID is missing: the header has "orderID,orderDate"`:                        {"orderID,orderDate\n1,2026-01-01\n", goodLines},
		`o.csv:1: column orderID is missing: the header has "orderID;customerID;orderDate"`:                {"orderID;customerID;orderDate\n", goodLines},
		`l.csv:1: column discount is missing: the header has "orderID,productID,unitPrice,quantity"`:       {goodOrders, "orderID,productID,unitPrice,quantity\n1,7,14.00,12\n"},
		`o.csv:1: column orderID is there twice`:                                                           {"orderID,orderID,customerID,orderDate\n", goodLines},

		`o.csv:3: 2 fields, but the header has 3`:                                       orders("1,ANNA,2026-01-01\n2,BERT\n"),
		`o.csv:3: 4 fields, but the header has 3`:                                       orders("1,ANNA,2026-01-01\n2,BERT,2026-01-02,\n"),
		`o.csv:2: orderID "x" is not a whole number`:                                    orders("x,ANNA,2026-01-01\n"),
		`o.csv:2: orderID "" is not a whole number`:                                     orders(",ANNA,2026-01-01\n"),
		`o.csv:2: orderID "-1" is not a whole number`:                                   orders("-1,ANNA,2026-01-01\n"),
		`o.csv:2: orderID "0" must be from 1 to 4611686018427387904`:                    orders("0,ANNA,2026-01-01\n"),
		`o.csv:2: orderID "99999999999999999999" must be from 1 to 4611686018427387904`: orders("99999999999999999999,ANNA,2026-01-01\n"),
		`o.csv:2: customerID is empty`:                                                  orders("1,,2026-01-01\n"),
		`o.csv:3: customerID is empty`:                                                  orders("1,ANNA,2026-01-01\n2,NULL,2026-01-01\n"),
		`o.csv:2: customerID "A\xff" is not UTF-8 text`:                                 orders("1,A\xff,2026-01-01\n"),
		`o.csv:2: orderDate "NULL": want a date such as 1996-07-04`:                     orders("1,ANNA,NULL\n"),
		`o.csv:2: orderDate "2026-02-30": want a date such as 1996-07-04`:               orders("1,ANNA,2026-02-30\n"),
		`o.csv:4: order 1 is there twice: first in line 2`:                              orders("1,ANNA,2026-01-01\n2,BERT,2026-01-02\n1,ANNA,2026-01-01\n"),
		`o.csv:4: order 3 has no line in l.csv`:                                         orders("1,ANNA,2026-01-01\n2,BERT,2026-01-02\n3,CARL,2026-01-03\n"),
		`o.csv:3: extraneous or missing " in quoted-field`:                              orders("1,ANNA,2026-01-01\n2,\"BERT,2026-01-02\n"),
		`o.csv:2: bare " in non-quoted-field`:                                           orders("1,A\"NNA,2026-01-01\n"),

		`l.csv:3: 4 fields, but the header has 5`:                       lines("1,7,14.00,12,0\n2,7,9.80,10\n"),
		`l.csv:2: 6 fields, but the header has 5`:                       lines("1,7,14,00,12,0\n"),
		`l.csv:2: order 99 is not in o.csv`:                             lines("99,7,14.00,12,0\n"),
		`l.csv:2: productID "seven" is not a whole number`:              lines("1,seven,14.00,12,0\n"),
		`l.csv:2: unitPrice "1e3": want a plain decimal such as 14.00`:  lines("1,7,1e3,12,0\n"),
		`l.csv:2: unitPrice "-1": want a plain decimal such as 14.00`:   lines("1,7,-1,12,0\n"),
		`l.csv:2: unitPrice "": want a plain decimal such as 14.00`:     lines("1,7,,12,0\n"),
		`l.csv:2: unitPrice "NaN": want a plain decimal such as 14.00`:  lines("1,7,NaN,12,0\n"),
		`l.csv:2: unitPrice "1234567890123": too many digits`:           lines("1,7,1234567890123,12,0\n"),
		`l.csv:2: quantity "1.5" is not a whole number`:                 lines("1,7,14.00,1.5,0\n"),
		`l.csv:2: quantity "0" must be from 1 to 2147483647`:            lines("1,7,14.00,0,0\n"),
		`l.csv:2: quantity "2147483648" must be from 1 to 2147483647`:   lines("1,7,14.00,2147483648,0\n"),
		`l.csv:2: discount "15" is above 1: 0.15 means 15 %`:            lines("1,7,14.00,12,15\n"),
		`l.csv:2: discount "-0.1": want a plain decimal such as 14.00`:  lines("1,7,14.00,12,-0.1\n"),
		`l.csv:4: product 7 of order 1 is there twice: first in line 2`: lines("1,7,14.00,12,0\n2,7,9.80,10,0\n1,7,14.00,12,0\n"),
	} {
		list, err := readText(files[0], files[1])
		require.EqualError(t, err, want)
		require.Nil(t, list)
		var row *rowError
		require.ErrorAs(t, err, &row)
	}
}

// TestOrders_CommasInAddressesMoveNothingThatIsRead: Northwind's addresses have commas and no quotes.
func TestOrders_CommasInAddressesMoveNothingThatIsRead(t *testing.T) {
	const header = "orderID,customerID,orderDate,shipName,shipAddress,shipCity\n"
	list, err := readText(header+"1,ANNA,2026-01-01,Anna,Rua do Paço, 67,Rio\n2,BERT,2026-01-02,Bert, Inc.,2, rue X,Lyon\n", goodLines)
	require.NoError(t, err)
	require.Equal(t, "BERT", list[1].Customer)
	require.Equal(t, "2026-01-02", list[1].Date)

	for want, orders := range map[string]string{
		// A comma in front of the address moves the date away.
		`o.csv:2: orderDate "NA": want a date such as 1996-07-04`: header + "1,AN,NA,2026-01-01,Anna,Street 1,Rio\n",
		// Less than the header is never harmless.
		`o.csv:2: 5 fields, but the header has 6`: header + "1,ANNA,2026-01-01,Anna,Rio\n",
		// Here a comma in the name could move what is read.
		`o.csv:2: 5 fields, but the header has 4`: "orderID,shipAddress,customerID,orderDate\n1,Rua, 67,ANNA,2026-01-01\n",
		`o.csv:3: 5 fields, but the header has 4`: "orderID,orderDate,customerID,shipAddress\n1,2026-01-01,ANNA,x\n2,2026-01-02,BE,RT,x\n",
	} {
		_, err := readText(orders, goodLines)
		require.EqualError(t, err, want)
	}
}

func TestOrders_SampleIsComplete(t *testing.T) {
	list, _, err := new(options).read()
	require.NoError(t, err)
	require.Len(t, list, 60)
	total, gross := expected(t, list)
	require.Equal(t, "149197.81", total)
	require.Equal(t, "154108.80", gross)
}

func TestOrders_NorthwindAddsUp(t *testing.T) {
	list, _, err := (&options{orders: northwind(t, "orders.csv"), lines: northwind(t, "order-details.csv")}).read()
	require.NoError(t, err)
	require.Len(t, list, 830)
	total, gross := expected(t, list)
	require.Equal(t, "1265793.22", total)
	require.Equal(t, "1354458.59", gross)
}

// northwind is a file of the well-known sample database, which stands beside the project where it is tested.
func northwind(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join("..", "..", "..", "shared", "data", "northwind", name)
	if _, err := os.Stat(file); err != nil {
		pgtest.Skip(t, err.Error())
	}
	return file
}

// expected computes the sums apart from the database, in fractions: each invoice rounded half up to cents.
func expected(t *testing.T, orders []order) (total, gross string) {
	t.Helper()
	number := func(text string) *big.Rat {
		n, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		return n
	}
	cents := func(amount *big.Rat) *big.Int {
		// floor(amount * 100 + 1/2), and no amount is negative.
		up := new(big.Rat).Add(new(big.Rat).Mul(amount, big.NewRat(100, 1)), big.NewRat(1, 2))
		return new(big.Int).Quo(up.Num(), up.Denom())
	}
	totalCents, grossCents := new(big.Int), new(big.Int)
	for _, o := range orders {
		invoice, before := new(big.Rat), new(big.Rat)
		for _, l := range o.Lines {
			amount := new(big.Rat).Mul(number(string(l.Price)), big.NewRat(int64(l.Quantity), 1))
			before.Add(before, amount)
			invoice.Add(invoice, amount.Mul(amount, new(big.Rat).Sub(big.NewRat(1, 1), number(string(l.Discount)))))
		}
		totalCents.Add(totalCents, cents(invoice))
		grossCents.Add(grossCents, cents(before))
	}
	return new(big.Rat).SetFrac(totalCents, big.NewInt(100)).FloatString(2), new(big.Rat).SetFrac(grossCents, big.NewInt(100)).FloatString(2)
}
